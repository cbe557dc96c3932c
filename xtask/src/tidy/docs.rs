//! Rules for decisions and changelog fragments.

use std::collections::BTreeMap;

use super::File;

const DECISIONS: &str = "docs/decisions/";
const SECTIONS: &[&str] = &["## Context", "## Decision", "## Consequence"];

const FRAGMENTS: &str = "changelog.d/";
const KINDS: &[&str] = &["breaking", "added", "changed", "fixed"];

pub(super) fn check(file: &File) -> Vec<String> {
    if let Some(name) = file.path.strip_prefix(DECISIONS).filter(|name| *name != "README.md") {
        return check_decision(file, name);
    }
    if let Some(name) = file.path.strip_prefix(FRAGMENTS).filter(|name| *name != "README.md") {
        return check_fragment(file, name).into_iter().collect();
    }
    Vec::new()
}

fn check_decision(file: &File, name: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if number(name).is_none() {
        complaints.push(format!("{}: a decision is called NNNN-what-it-is.md", file.path));
    }
    if !file.text.starts_with("# ") {
        complaints.push(format!("{}: the first line is the title, `# …`", file.path));
    }
    for section in SECTIONS {
        if !file.text.lines().any(|line| line.starts_with(section)) {
            complaints.push(format!("{}: has no section `{section}`", file.path));
        }
    }
    complaints
}

/// The four digits that a decision's name begins with.
fn number(name: &str) -> Option<&str> {
    let (digits, rest) = name.split_at_checked(4)?;
    let is_named = digits.bytes().all(|byte| byte.is_ascii_digit()) && rest.starts_with('-') && rest.ends_with(".md");
    is_named.then_some(digits)
}

/// No two decisions have the same number.
pub(super) fn check_numbers<'a>(paths: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen = BTreeMap::new();
    let mut complaints = Vec::new();
    for path in paths {
        let Some(number) = path.strip_prefix(DECISIONS).and_then(number) else { continue };
        if let Some(other) = seen.insert(number, path) {
            complaints.push(format!("{path}: has the number of {other}"));
        }
    }
    complaints
}

fn check_fragment(file: &File, name: &str) -> Option<String> {
    let kind = name.strip_suffix(".md").and_then(|name| name.rsplit_once('.')).map(|(_, kind)| kind);
    if !kind.is_some_and(|kind| KINDS.contains(&kind)) {
        return Some(format!(
            "{}: a fragment is called what-it-is.KIND.md, KIND one of {}",
            file.path,
            KINDS.join(", ")
        ));
    }
    file.text.trim().is_empty().then(|| format!("{}: says nothing", file.path))
}

#[cfg(test)]
mod tests {
    use super::super::file;
    use super::*;

    const DECISION: &str = "# A title\n\n## Context\n\n## Decision\n\n## Consequences\n";

    #[test]
    fn a_decision_has_its_three_sections_and_a_number() {
        assert!(check(&file("docs/decisions/0001-a.md", DECISION)).is_empty());
        for section in SECTIONS {
            let text = DECISION.replace(section, "## Else");
            assert_eq!(check(&file("docs/decisions/0001-a.md", &text)).len(), 1, "{section}");
        }
        assert_eq!(check(&file("docs/decisions/0001-a.md", &DECISION.replace("# A title\n", "\n"))).len(), 1);
        for name in ["1-a.md", "0001-a.txt", "00a1-a.md", "notes.md"] {
            assert_eq!(check(&file(&format!("docs/decisions/{name}"), DECISION)).len(), 1, "{name}");
        }
    }

    #[test]
    fn two_decisions_with_one_number_are_found() {
        let paths = ["docs/decisions/0001-a.md", "docs/decisions/0002-b.md", "docs/decisions/0001-c.md", "README.md"];
        let complaints = check_numbers(paths.into_iter());
        assert_eq!(complaints, ["docs/decisions/0001-c.md: has the number of docs/decisions/0001-a.md"]);
    }

    #[test]
    fn a_fragment_names_its_kind_and_says_something() {
        assert!(check(&file("changelog.d/first-pond.added.md", "It runs.\n")).is_empty());
        assert_eq!(check(&file("changelog.d/first-pond.added.md", "\n")).len(), 1);
        assert_eq!(check(&file("changelog.d/first-pond.new.md", "It runs.\n")).len(), 1);
        assert_eq!(check(&file("changelog.d/first-pond.md", "It runs.\n")).len(), 1);
    }
}
