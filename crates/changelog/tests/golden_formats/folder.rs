//! The folder of golden files, and what became of one of them.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::Check;
use crate::case::{Case, Outcome};

/// Our own copy, or the one that `MILLPOND_GOLDEN` names.
pub(crate) struct Folder {
    path: PathBuf,
    /// Whether each file has to be there.
    complete: bool,
}

/// What became of the cases of a file.
pub(crate) struct Verdict {
    file: String,
    absent: bool,
    pub(crate) passed: usize,
    pub(crate) failures: Vec<String>,
}

impl Verdict {
    pub(crate) fn is_good(&self) -> bool {
        self.failures.is_empty() && (self.absent || self.passed > 0)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, passed, failures, .. } = self;
        if self.absent {
            return write!(f, "golden_formats_{file}: not in this folder");
        }
        write!(f, "golden_formats_{file}: {passed} passed, {} failed", failures.len())?;
        failures.iter().take(20).try_for_each(|failure| write!(f, "\n  {failure}"))
    }
}

impl Folder {
    pub(crate) fn find() -> Self {
        match std::env::var_os("MILLPOND_GOLDEN") {
            None => Self { path: Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/formats"), complete: true },
            Some(given) => {
                let given = PathBuf::from(given);
                let below = given.join("formats");
                Self { path: if below.is_dir() { below } else { given }, complete: false }
            }
        }
    }

    /// The names of all files, without `.json`. Something else in the folder is a failure.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.path).unwrap_or_else(|e| panic!("{}: {e}", self.path.display()));
        let name = |path: PathBuf| {
            assert_eq!(path.extension().and_then(|e| e.to_str()), Some("json"), "{}", path.display());
            path.file_stem().unwrap().to_str().unwrap().to_owned()
        };
        let mut files: Vec<_> = entries.map(|entry| name(entry.unwrap().path())).collect();
        files.sort();
        files
    }

    /// The number of cases in a file; 0 if it may be missing and is.
    pub(crate) fn count(&self, file: &str) -> usize {
        self.load(file).map_or(0, |cases| cases.unwrap_or_else(|e| panic!("{file}: {e}")).len())
    }

    /// Checks every case of a file.
    pub(crate) fn check(&self, file: &str, check: Check) -> Verdict {
        let mut verdict = Verdict { file: file.to_owned(), absent: false, passed: 0, failures: Vec::new() };
        match self.load(file) {
            None => verdict.absent = true,
            Some(Err(e)) => verdict.failures.push(e),
            Some(Ok(cases)) => {
                for case in &cases {
                    match check_case(case, check) {
                        Ok(()) => verdict.passed += 1,
                        Err(e) => verdict.failures.push(format!("{e} in {}", short(case))),
                    }
                }
            }
        }
        verdict
    }

    fn load(&self, file: &str) -> Option<Result<Vec<Value>, String>> {
        let path = self.path.join(file).with_extension("json");
        if !self.complete && !path.exists() {
            return None;
        }
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()));
        Some(text.and_then(|text| cases(file, &text)))
    }
}

/// The cases of a file, of which nothing else may be left unread.
fn cases(file: &str, text: &str) -> Result<Vec<Value>, String> {
    let json: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
    let head = Case::new(&json)?;
    if head.text("format")? != file {
        return Err("the file names another format".to_owned());
    }
    head.text("kafka_streams")?;
    head.text("description")?;
    let cases = head.get("cases")?.as_array().ok_or("no list of cases")?.clone();
    head.done()?;
    Ok(cases)
}

fn check_case(case: &Value, check: Check) -> Outcome {
    let case = Case::new(case)?;
    check(&case)?;
    case.done()
}

fn short(case: &Value) -> String {
    case.to_string().chars().take(300).collect()
}
