//! The wrapper counts what it is there to count.

use std::sync::Arc;

use millpond_example_custom_engine::{Counted, Counts};
use millpond_store_api::{Direction, Engine, List, Range, ShardSpec, SpaceId, SpaceSpec, Write};
use millpond_store_mem::MemEngine;

const SPACE: SpaceId = SpaceId(1);

#[test]
fn reads_walks_and_applied_batches_are_counted_and_refused_batches_are_not() {
    let counts = Arc::new(Counts::default());
    let spaces = [SpaceSpec { id: SPACE, name: "s".into(), expires: false }];
    let spec = ShardSpec { dir: None, spaces: &spaces, unlogged: false };
    let mut shard = Counted::new(MemEngine::default(), Arc::clone(&counts)).open(&spec).unwrap();
    let write = |space, value| Write { space, key: b"key", value };
    shard.apply(&mut List::new(&[write(SPACE, Some(b"value")), write(SPACE, None)]), b"m").unwrap();
    assert!(shard.apply(&mut List::new(&[write(SPACE, None), write(SpaceId(9), None)]), b"n").is_err());
    assert_eq!((counts.batches(), counts.bytes_applied()), (1, 11), "the memory engine reads a batch twice");

    let reader = shard.reader();
    shard.get(SPACE, b"key", &mut |_| ()).unwrap();
    reader.multi_get(SPACE, &[b"a", b"b"], &mut |_, _| ()).unwrap();
    reader.scan(SPACE, Range::ALL, Direction::Forward).map(drop).unwrap();
    assert_eq!((counts.reads(), counts.walks()), (3, 1));
}
