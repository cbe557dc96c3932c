//! Which space of a shard a store has: written down beside the shard, so that a store keeps its space when others come and go.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use millpond_store_api::SpaceId;

use crate::error::{Error, ErrorKind, Result};

const FILE: &str = "SPACES";

/// The space of each store, in their order. In a directory the file `SPACES` (a line `<number> <store>` each) is read, and
/// written anew if there are new names; without one, numbers follow the order.
pub(crate) fn assign(dir: Option<&Path>, stores: &[&str]) -> Result<Vec<SpaceId>> {
    let Some(dir) = dir else { return Ok((0..stores.len()).map(|n| SpaceId(n as u16)).collect()) };
    let failed = |op, e: io::Error| {
        Error::new(ErrorKind::StateDir, op)
            .with("file", dir.join(FILE).display())
            .caused_by(e)
            .remedy("check permissions and free space of the state directory")
    };
    let mut known = read(dir).map_err(|e| failed("read the list of spaces", e))?;
    let before = known.len();
    for store in stores {
        if !known.contains_key(*store) {
            let next = known.values().max().map_or(0, |n| n + 1);
            known.insert((*store).to_owned(), next);
        }
    }
    if known.len() > before {
        write(dir, &known).map_err(|e| failed("write the list of spaces", e))?;
    }
    Ok(stores.iter().filter_map(|store| known.get(*store)).map(|n| SpaceId(*n)).collect())
}

fn read(dir: &Path) -> io::Result<BTreeMap<String, u16>> {
    let text = match fs::read_to_string(dir.join(FILE)) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(e),
    };
    let line = |line: &str| {
        let (number, store) = line.split_once(' ')?;
        Some((store.to_owned(), number.parse().ok()?))
    };
    let damaged = || io::Error::new(io::ErrorKind::InvalidData, "not a list of spaces");
    text.lines().map(|l| line(l).ok_or_else(damaged)).collect()
}

/// Written beside and renamed, so that it is there whole or not at all.
fn write(dir: &Path, spaces: &BTreeMap<String, u16>) -> io::Result<()> {
    let new = dir.join("SPACES.new");
    let mut file = fs::File::create(&new)?;
    for (store, number) in spaces {
        writeln!(file, "{number} {store}")?;
    }
    file.sync_all()?;
    fs::rename(&new, dir.join(FILE))
}

#[cfg(test)]
mod tests {
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
        assert!(text.contains("SPACES") && text.contains("not a list of spaces"), "{text}");
    }
}
