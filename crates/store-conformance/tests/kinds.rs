//! The cases of the kinds through a buffer over a shard: that they pass on a sound one, and notice unsound ones.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a panic is how a test reports")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use millpond_store_api::{
    Cursor, Direction, Empty, Engine, List, Range, Result, Row, Shard, ShardSpace, ShardSpec, Space, SpaceId, SpaceMut,
    SpaceSpec, Write,
};
use millpond_store_conformance::{KIND_CASES, Subject, run_kind};
use millpond_store_mem::MemEngine;

const SPACE: SpaceId = SpaceId(1);

/// What a buffer gets wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A delete removes the key from the buffer, and the row below shows again.
    DeletesForgotten,
    /// Walks see the shard only.
    WalksMissTheBuffer,
    /// Walks list deleted rows of the shard.
    WalksMissDeletes,
    /// Settling drops deletes.
    DeletesNotSettled,
    /// A key in the buffer and below is listed twice.
    ListedTwice,
    /// An empty value counts as a delete.
    EmptyDeletes,
    /// `touch` overwrites what is buffered with what lies below.
    TouchForgets,
}

/// Writes wait in a map until they are settled into a shard; a walk merges both by copying.
struct Buffer {
    fault: Fault,
    shard: Box<dyn Shard>,
    writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    value: Vec<u8>,
}

impl Buffer {
    fn new(fault: Fault) -> Self {
        let spaces = [SpaceSpec { id: SPACE, name: "store".into(), expires: false }];
        let shard = MemEngine::default().open(&ShardSpec { dir: None, spaces: &spaces, unlogged: false }).unwrap();
        Self { fault, shard, writes: BTreeMap::new(), value: Vec::new() }
    }
}

/// A buffer for each of the two spaces.
struct Buffers([Buffer; 2]);

impl Buffers {
    fn new(fault: Fault) -> Self {
        Self([Buffer::new(fault), Buffer::new(fault)])
    }
}

impl Subject for Buffers {
    fn with(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut)) {
        body(&mut self.0[0]);
    }

    fn with_both(&mut self, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
        let [first, second] = &mut self.0;
        body(first, second);
    }

    fn settle(&mut self) {
        self.0.iter_mut().for_each(Buffer::settle);
    }
}

impl Buffer {
    fn settle(&mut self) {
        if self.fault == Fault::DeletesNotSettled {
            self.writes.retain(|_, value| value.is_some());
        }
        let writes: Vec<_> =
            self.writes.iter().map(|(key, value)| Write { space: SPACE, key, value: value.as_deref() }).collect();
        self.shard.apply(&mut List::new(&writes), b"m").unwrap();
        self.writes.clear();
    }
}

impl Space for Buffer {
    fn get(&mut self, key: &[u8]) -> Result<Option<&[u8]>> {
        if let Some(value) = self.writes.get(key) {
            return Ok(value.as_deref());
        }
        let (shard, value) = (&self.shard, &mut self.value);
        Ok(shard.get(SPACE, key, &mut |bytes| *value = bytes.to_vec())?.then_some(value))
    }

    fn scan(&self, range: Range<'_>, direction: Direction) -> Result<Box<dyn Cursor + '_>> {
        if range.is_empty() {
            return Ok(Box::new(Empty));
        }
        let mut rows = Vec::new();
        let below = ShardSpace::new(&*self.shard, SPACE);
        let mut cursor = below.scan(range, Direction::Forward)?;
        while let Some(row) = cursor.next()? {
            let hidden = match self.writes.get(row.key) {
                Some(None) => self.fault != Fault::WalksMissDeletes,
                Some(Some(_)) => self.fault != Fault::ListedTwice,
                None => false,
            };
            if !hidden || self.fault == Fault::WalksMissTheBuffer {
                rows.push((row.key.to_vec(), row.value.to_vec()));
            }
        }
        if self.fault != Fault::WalksMissTheBuffer {
            let above = self.writes.range::<[u8], _>((range.lower, range.upper));
            rows.extend(above.filter_map(|(key, value)| Some((key.clone(), value.clone()?))));
        }
        rows.sort();
        if direction == Direction::Reverse {
            rows.reverse();
        }
        Ok(Box::new(Walk { rows, next: 0, lent: false, direction }))
    }

    fn touch(&mut self, keys: &[&[u8]]) -> Result<()> {
        if self.fault == Fault::TouchForgets {
            keys.iter().for_each(|key| drop(self.writes.remove(*key)));
        }
        Ok(())
    }
}

impl SpaceMut for Buffer {
    fn put(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let value = value.filter(|value| !(value.is_empty() && self.fault == Fault::EmptyDeletes));
        if value.is_none() && self.fault == Fault::DeletesForgotten {
            self.writes.remove(key);
        } else {
            self.writes.insert(key.to_vec(), value.map(<[u8]>::to_vec));
        }
        Ok(())
    }
}

struct Walk {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    next: usize,
    lent: bool,
    direction: Direction,
}

impl Cursor for Walk {
    fn next(&mut self) -> Result<Option<Row<'_>>> {
        let row = self.rows.get(self.next);
        self.lent = row.is_some();
        self.next += usize::from(self.lent);
        Ok(row.map(|(key, value)| Row { key, value }))
    }

    fn row(&self) -> Option<Row<'_>> {
        let (key, value) = self.rows.get(self.next.checked_sub(1)?)?;
        self.lent.then_some(Row { key, value })
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        let passed = |row: &[u8]| match self.direction {
            Direction::Forward => row < key,
            Direction::Reverse => row > key,
        };
        self.next += self.rows[self.next..].iter().take_while(|(row, _)| passed(row)).count();
        Ok(())
    }
}

mod buffered {
    millpond_store_conformance::kind_conformance!(super::Buffers::new(super::Fault::None));
}

/// The kind's cases that fail with a fault.
fn noticed_by(fault: Fault) -> Vec<&'static str> {
    let fails = |run| catch_unwind(AssertUnwindSafe(|| run_kind(&|| Box::new(Buffers::new(fault)), run))).is_err();
    KIND_CASES.iter().filter(|case| fails(case.run)).map(|case| case.name).collect()
}

#[test]
fn unsound_buffers_are_noticed() {
    for (fault, case) in [
        (Fault::DeletesForgotten, "b034_a_delete_hides_what_lies_below"),
        (Fault::WalksMissTheBuffer, "rows_above_and_below_are_merged"),
        (Fault::WalksMissDeletes, "b035_deletes_ahead_of_the_rows_below"),
        (Fault::DeletesNotSettled, "b034_a_delete_hides_what_lies_below"),
        (Fault::ListedTwice, "rows_above_and_below_are_merged"),
        (Fault::EmptyDeletes, "empty_is_not_absent"),
        (Fault::TouchForgets, "touch_changes_nothing"),
    ] {
        let noticed = noticed_by(fault);
        assert!(noticed.contains(&case), "{fault:?} is noticed by {noticed:?} only");
        assert!(noticed.contains(&"against_a_model") || fault == Fault::EmptyDeletes || fault == Fault::TouchForgets);
    }
}
