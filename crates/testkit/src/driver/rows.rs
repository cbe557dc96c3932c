//! A store's rows, whatever its kind.

use millpond_changelog::RowLayout;
use millpond_store_api::{
    self as store, AggregationWithHeaders, BufferValue, Direction, KeyBuffer, Keys, Range, Row, Session, Sessions,
    Space, SpaceId, SpaceMut, ValueAndTimestamp, ValueTimestampHeaders, Window, schema::Buckets,
};
use millpond_topology::{StoreAccess, StoreDef, StoreType};

/// Calls `each` with every row, its key as in the changelog.
pub(crate) fn each(def: &StoreDef, access: &mut StoreAccess<'_>, each: &mut dyn FnMut(Row<'_>)) -> store::Result<()> {
    if def.kind == StoreType::SuppressionBuffer {
        return each_of(&access.space(), &mut |row| {
            if let Some(key) = KeyBuffer::<dyn SpaceMut>::key_of_row(row.key) {
                each(Row { key, value: row.value });
            }
            Ok(())
        });
    }
    let duplicates = def.retention.is_some_and(|r| r.duplicates);
    let Some((number, retention, now)) = access.expiry.as_ref().map(|e| (e.store, e.retention, *e.observed)) else {
        return each_of(&access.space(), &mut |row| {
            each(row);
            Ok(())
        });
    };
    // Which space it is does not matter: only the key is asked for.
    let windowed = SpaceId(0);
    let window = RowLayout::Window { windowed, store: number, retention, duplicates };
    let session = RowLayout::Session { windowed, store: number, retention };
    let mut key = Vec::new();
    match def.kind {
        StoreType::TtlKeyValue => {
            let earliest = Buckets::new(retention).earliest_alive(now);
            each_of(&access.space(), &mut |row| {
                let time = ValueAndTimestamp::decode(row.value)?.timestamp;
                if earliest.is_some_and(|earliest| earliest <= time) {
                    each(row);
                }
                Ok(())
            })
        }
        StoreType::Session | StoreType::SessionWithHeaders => {
            let mut space = access.space();
            let view = Session::new(&mut space, number, retention, now);
            let mut rows = view.scan(Sessions::of(Keys::ALL), Direction::Forward)?;
            while rows.next()?.is_some() {
                if let Some(row) = rows.raw() {
                    each(Row { key: session.key_to_log(row.key, &mut key)?, value: row.value });
                }
            }
            Ok(())
        }
        kind if kind.is_windowed() => {
            let mut space = access.space();
            let view = Window::new(&mut space, number, retention, duplicates, now);
            let mut rows = view.all(Direction::Forward)?;
            while rows.next()?.is_some() {
                if let Some(row) = rows.raw() {
                    each(Row { key: window.key_to_log(row.key, &mut key)?, value: row.value });
                }
            }
            Ok(())
        }
        _ => each_of(&access.space(), &mut |row| {
            each(row);
            Ok(())
        }),
    }
}

fn each_of(space: &dyn Space, each: &mut dyn FnMut(Row<'_>) -> store::Result<()>) -> store::Result<()> {
    let mut cursor = space.scan(Range::ALL, Direction::Forward)?;
    while let Some(row) = cursor.next()? {
        each(row)?;
    }
    Ok(())
}

/// What the value's serde gets, and the event time of the last update; -1 if the kind keeps none.
pub(super) fn value(kind: StoreType, bytes: &[u8]) -> store::Result<(&[u8], i64)> {
    Ok(match kind {
        StoreType::TimestampedKeyValue
        | StoreType::TtlKeyValue
        | StoreType::VersionedKeyValue
        | StoreType::TimestampedWindow => {
            let row = ValueAndTimestamp::decode(bytes)?;
            (row.value, row.timestamp)
        }
        StoreType::TimestampedKeyValueWithHeaders | StoreType::TimestampedWindowWithHeaders => {
            let row = ValueTimestampHeaders::decode(bytes)?;
            (row.value, row.timestamp)
        }
        StoreType::SuppressionBuffer => {
            let waiting = waiting(AggregationWithHeaders::decode(bytes)?.aggregation)?;
            (waiting.new.unwrap_or_default(), waiting.context.timestamp)
        }
        StoreType::SessionWithHeaders => (AggregationWithHeaders::decode(bytes)?.aggregation, -1),
        _ => (bytes, -1),
    })
}

/// What the value's serde gets of a changelog record's value.
pub(super) fn logged_value(kind: StoreType, bytes: &[u8]) -> store::Result<&[u8]> {
    match kind {
        StoreType::SuppressionBuffer => Ok(waiting(bytes)?.new.unwrap_or_default()),
        _ => Ok(bytes),
    }
}

/// An update that waits; behind it stands since when.
fn waiting(bytes: &[u8]) -> store::Result<BufferValue<'_>> {
    BufferValue::decode(bytes.split_last_chunk::<8>().map_or(&[][..], |(value, _)| value))
}
