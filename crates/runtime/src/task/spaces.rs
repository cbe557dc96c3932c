//! Which space of a shard a store has: written down beside the shard, so that a store keeps its space when others come and go.

use std::collections::BTreeMap;
use std::path::Path;

use millpond_store_api::SpaceId;

use crate::error::Result;
use crate::state::{StateError, StateErrorKind, read_file, replace_file};

const FILE: &str = "SPACES";

/// The space of each store, in their order. In a directory the file `SPACES` (a line `<number> <store>` each) is read, and
/// written anew if there are new names; without one, numbers follow the order.
pub(crate) fn assign(dir: Option<&Path>, stores: &[&str]) -> Result<Vec<SpaceId>> {
    let Some(dir) = dir else { return Ok((0..stores.len()).map(|n| SpaceId(n as u16)).collect()) };
    let mut known = read(dir)?;
    let before = known.len();
    for store in stores {
        if !known.contains_key(*store) {
            let next = known.values().max().map_or(0, |n| n + 1);
            known.insert((*store).to_owned(), next);
        }
    }
    if known.len() > before {
        let lines: String = known.iter().map(|(store, number)| format!("{number} {store}\n")).collect();
        replace_file("write the list of spaces", dir, FILE, &lines)?;
    }
    Ok(stores.iter().filter_map(|store| known.get(*store)).map(|n| SpaceId(*n)).collect())
}

fn read(dir: &Path) -> std::result::Result<BTreeMap<String, u16>, StateError> {
    const OP: &str = "read the list of spaces";
    let path = dir.join(FILE);
    let Some(text) = read_file(OP, &path)? else { return Ok(BTreeMap::new()) };
    let line = |line: &str| {
        let (number, store) = line.split_once(' ')?;
        Some((store.to_owned(), number.parse().ok()?))
    };
    let damaged = || {
        StateError::new(StateErrorKind::Damaged, OP)
            .with("path", path.display())
            .with("remedy", "set the shard aside and restore it from its changelogs")
    };
    text.lines().map(|l| line(l).ok_or_else(damaged)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_store_keeps_its_space_when_others_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let ids = |stores: &[&str]| assign(Some(dir.path()), stores).unwrap().iter().map(|s| s.0).collect::<Vec<_>>();
        assert_eq!(ids(&["b", "c"]), [0, 1]);
        assert_eq!(ids(&["a", "c"]), [2, 1]);
        assert_eq!(ids(&["c", "b", "a"]), [1, 0, 2]);
    }

    #[test]
    fn a_damaged_list_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FILE), "what is this").unwrap();
        let text = assign(Some(dir.path()), &["a"]).unwrap_err().chain();
        assert!(text.contains("SPACES") && text.contains("remedy="), "{text}");
    }
}
