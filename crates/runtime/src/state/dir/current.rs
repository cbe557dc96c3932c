//! The file `CURRENT` of a task: which of its directories is the shard of each engine.

use std::collections::BTreeMap;
use std::path::Path;

use super::files::{read_file, replace_file};
use crate::state::error::{Result, StateError, StateErrorKind};

/// The number of each engine's shard directory, `<engine>-<number>`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Current {
    pub(super) shards: BTreeMap<String, u64>,
}

impl Current {
    pub(super) const FILE: &str = "CURRENT";
    /// The first line; another version gets another one.
    const HEAD: &str = "millpond-current 1";

    /// The file of a task directory; `None` if there is none.
    pub(super) fn read(op: &'static str, task_dir: &Path) -> Result<Option<Self>> {
        let path = task_dir.join(Self::FILE);
        let Some(text) = read_file(op, &path)? else { return Ok(None) };
        match Self::parse(&text) {
            Some(current) => Ok(Some(current)),
            None => Err(StateError::new(StateErrorKind::Damaged, op)
                .with("path", path.display())
                .with("remedy", "set the task's shards aside and restore them from their changelogs")),
        }
    }

    /// Replaces the file.
    pub(super) fn write(&self, op: &'static str, task_dir: &Path) -> Result<()> {
        replace_file(op, task_dir, Self::FILE, &self.render())
    }

    /// True if a directory is the shard of an engine.
    pub(super) fn names(&self, engine: &str, number: u64) -> bool {
        self.shards.get(engine) == Some(&number)
    }

    /// A line `<engine> <engine>-<number>` each, after the head; a last line without an end is a damaged file.
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.strip_suffix('\n')?.split('\n');
        if lines.next()? != Self::HEAD {
            return None;
        }
        let mut shards = BTreeMap::new();
        for line in lines {
            let (engine, dir) = line.split_once(' ')?;
            let (named, number) = shard_dir_name(dir)?;
            if named != engine || shards.insert(engine.to_owned(), number).is_some() {
                return None;
            }
        }
        Some(Self { shards })
    }

    fn render(&self) -> String {
        let lines = self.shards.iter().map(|(engine, number)| format!("{engine} {engine}-{number}\n"));
        format!("{}\n", Self::HEAD) + &lines.collect::<String>()
    }
}

/// Engine and number of a shard directory's name.
pub(super) fn shard_dir_name(name: &str) -> Option<(&str, u64)> {
    let (engine, number) = name.rsplit_once('-')?;
    let number = number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)?;
    is_engine(engine).then_some((engine, number))
}

/// True if an engine's name can be part of a directory's.
pub(super) fn is_engine(name: &str) -> bool {
    let start = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
    start && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_rendered_is_parsed() {
        for shards in [&[][..], &[("mem", 0)], &[("mem", 1), ("rocks_2", u64::MAX)]] {
            let shards = shards.iter().map(|(engine, number)| ((*engine).to_owned(), *number)).collect();
            let current = Current { shards };
            assert_eq!(Current::parse(&current.render()), Some(current));
        }
        let one = Current { shards: BTreeMap::from([("rocks".to_owned(), 3)]) };
        assert_eq!(one.render(), "millpond-current 1\nrocks rocks-3\n");
        assert!(one.names("rocks", 3) && !one.names("rocks", 2) && !one.names("mem", 3));
    }

    #[test]
    fn anything_else_is_damaged() {
        for text in [
            "",
            "\n",
            "millpond-current 1",
            "millpond-current 2\n",
            "millpond-current 1\nrocks rocks-3",
            "millpond-current 1\nrocks\n",
            "millpond-current 1\nrocks mem-3\n",
            "millpond-current 1\nrocks rocks-03\n",
            "millpond-current 1\nrocks rocks-x\n",
            "millpond-current 1\nrocks ../rocks-3\n",
            "millpond-current 1\nrocks rocks-3\nrocks rocks-4\n",
            "millpond-current 1\n\n",
        ] {
            assert_eq!(Current::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn names_of_shard_directories() {
        assert_eq!(shard_dir_name("rocks-12"), Some(("rocks", 12)));
        for name in ["rocks", "rocks-", "-1", "quarantine-rocks-1", "Rocks-1", "rocks-1.tmp", "../x-1", "0_1"] {
            assert_eq!(shard_dir_name(name), None, "{name}");
        }
    }
}
