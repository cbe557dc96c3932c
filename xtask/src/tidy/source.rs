//! Rules for Rust files.

use super::manifest::UNSAFE_PACKAGES;
use super::{File, at};

/// A file beyond this wants to be two.
const MAX_LINES: usize = 800;

/// What must not stand in a Rust file, and why. Put together from pieces, so that this file passes its own rule.
const FORBIDDEN: &[(&str, &str)] = &[
    (concat!("#[", "allow("), "use `#[expect(…, reason = \"…\")]`, which goes away with its cause"),
    (concat!("#![", "allow("), "use `#![expect(…, reason = \"…\")]`, which goes away with its cause"),
    (concat!("#[", "ignore"), "a test that does not run is no test; slow ones ask for MILLPOND_SLOW"),
    (concat!("todo", "!("), "finish it"),
    (concat!("unimplemented", "!("), "finish it, or return an error that says so"),
];

/// The lint that a module must lift before it may hold unsafe code.
const UNSAFE: &str = concat!("expect(", "unsafe_code");

/// Words that mark something unfinished.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X")];

pub(super) fn check(file: &File) -> Vec<String> {
    let mut complaints = Vec::new();
    if !file.text.starts_with("//! ") {
        complaints.push(at(file, 0, "begin with one `//!` sentence that says what the file is"));
    }
    let lines = counted_lines(file);
    if lines > MAX_LINES {
        complaints.push(at(file, lines, &format!("{lines} lines without tests, {MAX_LINES} at most: split it")));
    }
    let may_be_unsafe = may_be_unsafe(&file.path);
    for (number, line) in file.text.lines().enumerate() {
        if line.contains(UNSAFE) && !may_be_unsafe {
            complaints.push(at(file, number, "unsafe code belongs to the module `ffi` of a crate that may have one"));
        }
        complaints.extend(check_line(line).into_iter().map(|what| at(file, number, &what)));
    }
    complaints
}

/// `crates/store-rocks/src/ffi.rs` and the like.
fn may_be_unsafe(path: &str) -> bool {
    UNSAFE_PACKAGES.iter().any(|package| {
        let folder = package.trim_start_matches("millpond-");
        let inside = path.strip_prefix("crates/").and_then(|path| path.strip_prefix(folder));
        inside.is_some_and(|path| path.starts_with("/src/ffi.rs") || path.starts_with("/src/ffi/"))
    })
}

fn check_line(line: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for (pattern, why) in FORBIDDEN {
        if line.contains(pattern) {
            complaints.push(format!("`{pattern}` is forbidden: {why}"));
        }
    }
    for mark in MARKS {
        if line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == *mark) {
            complaints.push(format!("`{mark}` is forbidden: finish it, or describe the limit in words"));
        }
    }
    if is_ignored_doc_test(line) {
        complaints.push(
            "a doc example must compile: `no_run` where it needs a broker, `text` where it is no code".to_owned(),
        );
    }
    complaints
}

/// A fence in a doc comment whose attributes have `ignore` among them.
fn is_ignored_doc_test(line: &str) -> bool {
    let line = line.trim_start();
    let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else { return false };
    let Some(attributes) = comment.trim_start().strip_prefix("```") else { return false };
    attributes.split(',').any(|attribute| attribute.trim().starts_with("ignore"))
}

/// Lines up to the unit tests at the end; files that are tests as a whole count nothing.
fn counted_lines(file: &File) -> usize {
    let is_test = ["tests/", "benches/"]
        .iter()
        .any(|folder| file.path.starts_with(folder) || file.path.contains(&format!("/{folder}")));
    if is_test || file.path.ends_with("/tests.rs") {
        return 0;
    }
    let lines = file.text.lines().collect::<Vec<_>>();
    let tests = lines.windows(2).position(|pair| {
        matches!(pair, [attribute, module] if *attribute == "#[cfg(test)]" && module.starts_with("mod ") && module.ends_with('{'))
    });
    tests.unwrap_or(lines.len())
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    fn complaints(text: &str) -> usize {
        check(&file("crates/a/src/b.rs", &format!("//! A file.\n{text}"))).len()
    }

    #[test]
    fn a_clean_file_passes() {
        assert_eq!(
            complaints("/// ```no_run\n/// x();\n/// ```\n#[expect(dead_code, reason = \"why\")]\nfn x() {}\n"),
            0
        );
    }

    #[test]
    fn the_first_line_says_what_the_file_is() {
        assert_eq!(check(&file("a.rs", "fn main() {}\n")).len(), 1);
        assert_eq!(check(&file("a.rs", "")).len(), 1);
    }

    #[test]
    fn forbidden_patterns_are_found() {
        for (pattern, _) in FORBIDDEN {
            assert_eq!(complaints(&format!("    {pattern}\n")), 1, "{pattern}");
        }
        for mark in MARKS {
            assert_eq!(complaints(&format!("// {mark}: later\n")), 1, "{mark}");
            assert_eq!(complaints(&format!("let {mark}_LONGER = 1;\n")), 0, "{mark}");
        }
    }

    #[test]
    fn unsafe_code_has_its_one_place() {
        let text = format!("//! A file.\n#![{UNSAFE}, reason = \"why\")]\n");
        assert!(check(&file("crates/store-rocks/src/ffi.rs", &text)).is_empty());
        for path in ["crates/store-rocks/src/shard.rs", "crates/store-mem/src/ffi.rs", "xtask/src/ffi.rs"] {
            assert_eq!(check(&file(path, &text)).len(), 1, "{path}");
        }
    }

    #[test]
    fn ignored_doc_tests_are_found() {
        for fence in ["/// ```ignore", "    //! ```rust,ignore", "/// ```ignore-windows"] {
            assert_eq!(complaints(&format!("{fence}\n")), 1, "{fence}");
        }
        assert_eq!(complaints("/// what to ignore\n/// ```text\n"), 0);
    }

    #[test]
    fn a_long_file_is_found_but_its_tests_do_not_count() {
        let code = "fn x() {}\n".repeat(MAX_LINES);
        assert_eq!(complaints(&code), 1);
        let tested = format!("{}#[cfg(test)]\nmod tests {{\n{code}}}\n", "fn x() {}\n".repeat(9));
        assert_eq!(complaints(&tested), 0);
        let declared = format!("#[cfg(test)]\nmod tests;\n{code}");
        assert_eq!(complaints(&declared), 1);
        for path in ["crates/a/tests/b.rs", "crates/a/src/b/tests.rs", "crates/a/benches/c.rs"] {
            assert!(check(&file(path, &format!("//! Tests.\n{code}"))).is_empty(), "{path}");
        }
    }
}
