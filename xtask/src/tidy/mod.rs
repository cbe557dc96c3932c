//! `tidy`: the rules of the house that no other tool knows.
//!
//! Every rule is a function from a file (or a package) to complaints, with a test that shows it complain.

mod docs;
mod manifest;
mod paths;
mod source;
mod text;

use std::fs;
use std::path::Path;

use crate::cargo::{command, output, root, workspace};
use crate::error::{Error, Result};
use crate::report;

/// A file of the repository.
struct File {
    /// Relative to the root, with `/`.
    path: String,
    text: String,
}

/// Applies every rule to every file that git tracks or would track.
pub(crate) fn run() -> Result<()> {
    let root = root();
    let files = read_files(&root)?;
    let mut complaints = files.iter().flat_map(check_file).collect::<Vec<_>>();
    complaints.extend(docs::check_numbers(files.iter().map(|file| file.path.as_str())));
    complaints.extend(text::check_entry(&files));
    let known = paths::Known::new(files.iter().map(|file| file.path.as_str()));
    complaints.extend(files.iter().flat_map(|file| paths::check(file, &known)));
    for package in workspace()? {
        complaints.extend(manifest::check(&package, &root)?);
    }
    report("tidy", &complaints)
}

fn check_file(file: &File) -> Vec<String> {
    let mut complaints = text::check(file);
    if file.path.ends_with(".rs") {
        complaints.extend(source::check(file));
    }
    complaints.extend(docs::check(file));
    complaints
}

fn read_files(root: &Path) -> Result<Vec<File>> {
    let listed = output(command("git").args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]))?;
    let mut files = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        match fs::read(root.join(path)) {
            // What is not UTF-8 is data, and none of our business.
            Ok(bytes) => files.extend(String::from_utf8(bytes).ok().map(|text| File { path: path.to_owned(), text })),
            // Deleted, but not yet in git's index.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("cannot read", &root.join(path), &error)),
        }
    }
    Ok(files)
}

/// `path:line: what`, for the editor to jump to.
fn at(file: &File, line: usize, what: &str) -> String {
    format!("{}:{}: {what}", file.path, line + 1)
}

#[cfg(test)]
fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}
