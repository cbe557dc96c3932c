//! What keeps a client within the memory that it may take: the settings of its queues.
//!
//! librdkafka counts the bytes of records, not what it keeps beside each, which is more than a small record is. So half of the
//! memory is for bytes, and the other half, as a number of records, for what stands beside them.

use std::collections::BTreeMap;

/// What librdkafka keeps beside a fetched record: an operation with the message in it, and the allocator's share.
const BESIDE_FETCHED: u64 = 400;
/// What it keeps beside a record that is to be sent: the message, its key (not counted as bytes), the allocator's share.
const BESIDE_SENT: u64 = 300;
/// A record that a producer takes has at most so many bytes, if the user has not said otherwise.
const LARGEST: u64 = 1_000_000;

/// A setting, the value that memory alone would give it, and the value that suits the work: the smaller one is taken.
struct Bound {
    name: &'static str,
    within: u64,
    tuned: u64,
}

/// For a consumer that may take `memory` bytes. A quarter of it is fetched ahead, and one response of the same size may come
/// on top: librdkafka makes `fetch.max.bytes` the same by itself.
pub(crate) fn of_consumer(memory: Option<u64>, user: &BTreeMap<&str, &str>) -> Vec<(&'static str, String)> {
    let memory = memory.unwrap_or(u64::MAX);
    let bounds = [
        Bound { name: "queued.max.messages.kbytes", within: (memory / 4 / 1000).max(1), tuned: 8192 },
        Bound { name: "queued.min.messages", within: (memory / 2 / BESIDE_FETCHED).max(1), tuned: 100_000 },
    ];
    settle(&bounds, user)
}

/// For a producer that may take `memory` bytes. The largest record always has room.
pub(crate) fn of_producer(memory: Option<u64>, user: &BTreeMap<&str, &str>) -> Vec<(&'static str, String)> {
    let memory = memory.unwrap_or(u64::MAX);
    let largest = user.get("message.max.bytes").and_then(|text| text.parse().ok()).unwrap_or(LARGEST);
    let least = largest / 1024 + 1;
    let bounds = [
        Bound { name: "queue.buffering.max.kbytes", within: (memory / 2 / 1024).max(least), tuned: least.max(32_768) },
        Bound { name: "queue.buffering.max.messages", within: (memory / 2 / BESIDE_SENT).max(1), tuned: 500_000 },
    ];
    settle(&bounds, user)
}

/// The values, without those that the user has set: these win, and are told about if they are larger than memory allows.
fn settle(bounds: &[Bound], user: &BTreeMap<&str, &str>) -> Vec<(&'static str, String)> {
    let mut values = Vec::new();
    for bound in bounds {
        match user.get(bound.name) {
            None => values.push((bound.name, bound.within.min(bound.tuned).to_string())),
            Some(set) if exceeds(set, bound.within) => tracing::warn!(
                setting = bound.name,
                value = set,
                within = bound.within,
                "a client may take more than its part of memory.budget.bytes: leave the setting out, or raise the budget"
            ),
            Some(_) => {}
        }
    }
    values
}

fn exceeds(set: &str, within: u64) -> bool {
    // What is no number is refused by librdkafka.
    set.parse().is_ok_and(|set: u64| set > within)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn values(rows: &[(&'static str, String)]) -> Vec<(&'static str, u64)> {
        rows.iter().map(|(name, value)| (*name, value.parse().unwrap())).collect()
    }

    #[test]
    fn a_consumers_records_and_what_stands_beside_them_fit_into_its_memory() {
        for memory in [64 * 1024, MIB, 8 * MIB, 30 * MIB] {
            let rows = values(&of_consumer(Some(memory), &BTreeMap::new()));
            let [("queued.max.messages.kbytes", kilobytes), ("queued.min.messages", records)] = rows[..] else {
                panic!("{rows:?}")
            };
            let response = kilobytes * 1000;
            assert!(kilobytes * 1000 + response + records * BESIDE_FETCHED <= memory, "{memory}: {rows:?}");
        }
    }

    #[test]
    fn a_producers_records_fit_into_its_memory_and_the_largest_one_has_room() {
        let rows = values(&of_producer(Some(16 * MIB), &BTreeMap::new()));
        assert_eq!(rows, [("queue.buffering.max.kbytes", 8192), ("queue.buffering.max.messages", 27_962)]);
        let small = values(&of_producer(Some(1), &BTreeMap::new()));
        assert_eq!(small, [("queue.buffering.max.kbytes", 977), ("queue.buffering.max.messages", 1)]);
        let large = values(&of_producer(Some(1), &BTreeMap::from([("message.max.bytes", "104857600")])));
        assert_eq!(large[0], ("queue.buffering.max.kbytes", 102_401));
        let unbounded = values(&of_producer(None, &BTreeMap::from([("message.max.bytes", "104857600")])));
        assert_eq!(unbounded[0], ("queue.buffering.max.kbytes", 102_401));
    }

    #[test]
    fn more_memory_than_suits_the_work_is_not_taken() {
        let consumer = [("queued.max.messages.kbytes", 8192), ("queued.min.messages", 100_000)];
        let producer = [("queue.buffering.max.kbytes", 32_768), ("queue.buffering.max.messages", 500_000)];
        for memory in [None, Some(u64::MAX), Some(1 << 40)] {
            assert_eq!(values(&of_consumer(memory, &BTreeMap::new())), consumer);
            assert_eq!(values(&of_producer(memory, &BTreeMap::new())), producer);
        }
    }

    #[test]
    fn what_the_user_has_set_is_left_alone_and_judged() {
        let user = BTreeMap::from([("queued.max.messages.kbytes", "65536")]);
        assert_eq!(values(&of_consumer(Some(4000), &user)), [("queued.min.messages", 5)]);
        assert!(exceeds("65536", 1) && !exceeds("65536", 65_536) && !exceeds("many", 1));
    }
}
