//! Deletes the rows of one store from a shard that it shares with others.

use millpond_store_api::schema::ExpiringKey;
use millpond_store_api::{self as store, Chunk, Direction, Range, Row, Shard, SpaceId, Write, Writes};

use super::ApplyLimits;
use crate::RowLayout;

/// Deletes all rows of a store, in its own space and in the windowed one, in whatever bucket they lie there and whatever
/// retention they were written with; rows of other stores stay.
///
/// It is done a chunk at a time, each with this metadata, which therefore says nothing any more of what the store has: see
/// [`ShardMetadata::forget_changelog`](crate::ShardMetadata::forget_changelog). Cut short, it is done again. A shard without
/// rows of the store is not written to.
pub fn clear_store(shard: &mut dyn Shard, rows: RowLayout, metadata: &[u8]) -> store::Result<()> {
    clear(shard, rows, metadata, &mut Chunk::default(), ApplyLimits::default().records)
}

/// [`clear_store`] with memory of the caller's, at most `limit` rows at once.
pub(super) fn clear(
    shard: &mut dyn Shard,
    rows: RowLayout,
    metadata: &[u8],
    keys: &mut Chunk,
    limit: usize,
) -> store::Result<()> {
    let own = rows.own_space().map(|space| (space, None));
    let windowed = rows.windowed().map(|(space, store)| (space, Some(store)));
    for (space, store) in [own, windowed].into_iter().flatten() {
        keys.clear();
        loop {
            let more = find(shard, space, store, keys, limit)?;
            if !keys.is_empty() {
                shard.apply(&mut Deletes { space, rows: keys, at: 0 }, metadata)?;
            }
            if !more {
                break;
            }
        }
    }
    Ok(())
}

/// Replaces `keys` by those behind the last one: of the whole space, or of one store of the windowed one. False if there are
/// no more.
fn find(shard: &dyn Shard, space: SpaceId, store: Option<u16>, keys: &mut Chunk, limit: usize) -> store::Result<bool> {
    let last = keys.last().map(|row| row.key.to_vec());
    let range = last.as_deref().map_or(Range::ALL, |last| Range::ALL.after(last, Direction::Forward));
    let mut cursor = shard.scan(space, range, Direction::Forward)?;
    keys.clear();
    while keys.len() < limit {
        let Some(Row { key, .. }) = cursor.next()? else { return Ok(false) };
        match store {
            Some(store) if ExpiringKey::bucket_and_store_of(key)?.1 != store => {
                if !ExpiringKey::seek_store(&mut *cursor, store)? {
                    return Ok(false);
                }
            }
            _ => keys.push(Row { key, value: &[] }),
        }
    }
    Ok(true)
}

/// Deletes of all rows of a chunk.
struct Deletes<'a> {
    space: SpaceId,
    rows: &'a Chunk,
    at: usize,
}

impl Writes for Deletes<'_> {
    fn rewind(&mut self) {
        self.at = 0;
    }

    fn next(&mut self) -> Option<Write<'_>> {
        let row = self.rows.get(self.at)?;
        self.at += 1;
        Some(Write { space: self.space, key: row.key, value: None })
    }
}
