//! The full stack over the engine in memory, in both of its forms; and that the random histories notice what is wrong.

use millpond_store_api::{Shard, SpaceMut};
use millpond_store_conformance::faults::{Fault, Faulty};
use millpond_store_conformance::history::{End, Failure, Stack, find};
use millpond_store_mem::{MemEngine, SimulatedDisk};
use millpond_testkit::stack::{Overlaid, RecordCache, check_histories};

mod overlay {
    millpond_testkit::stack_conformance!(millpond_store_mem::MemEngine::default);

    mod reads {
        use millpond_testkit::stack::{RecordCache, subject};

        millpond_store_conformance::kind_conformance!(subject(super::__harness(), RecordCache::Reads));
    }

    mod on_disk {
        #[test]
        fn b040_what_another_owner_wrote_meanwhile_is_seen() {
            millpond_testkit::stack::task::b040_what_another_owner_wrote_meanwhile_is_seen(&crate::on_disk());
        }
    }
}

/// The engine as all processes of one history have it.
fn on_disk() -> impl Fn() -> MemEngine {
    let disk = SimulatedDisk::default();
    move || MemEngine::with_simulated_disk(&disk)
}

/// Of 20,000 histories, or two million, the part of one test out of eight.
fn seeds(test: u64) -> std::ops::Range<u64> {
    let all = if std::env::var_os("MILLPOND_SLOW").is_some() { 2_000_000 } else { 20_000 };
    all / 8 * test..all / 8 * (test + 1)
}

mod histories {
    use super::*;

    #[test]
    fn in_memory_without_a_cache() {
        check_histories(|| MemEngine::default, RecordCache::Off, seeds(0));
    }

    #[test]
    fn in_memory_with_a_cache_for_reads() {
        check_histories(|| MemEngine::default, RecordCache::Reads, seeds(1));
    }

    #[test]
    fn in_memory_with_a_tiny_cache() {
        check_histories(|| MemEngine::default, RecordCache::Tiny, seeds(2));
    }

    #[test]
    fn in_memory_with_a_large_cache() {
        check_histories(|| MemEngine::default, RecordCache::Large, seeds(3));
    }

    #[test]
    fn on_a_disk_without_a_cache() {
        check_histories(on_disk, RecordCache::Off, seeds(4));
    }

    #[test]
    fn on_a_disk_with_a_cache_for_reads() {
        check_histories(on_disk, RecordCache::Reads, seeds(5));
    }

    #[test]
    fn on_a_disk_with_a_tiny_cache() {
        check_histories(on_disk, RecordCache::Tiny, seeds(6));
    }

    #[test]
    fn on_a_disk_with_a_large_cache() {
        check_histories(on_disk, RecordCache::Large, seeds(7));
    }
}

/// The histories notice what is wrong, in the engine or above it, and say so in a few words.
mod noticed {
    use super::*;

    /// The first failure of the histories over a stack; it must be a short one.
    fn failure(make: impl Fn(u16) -> Box<dyn Stack>) -> Failure {
        let failure = find(&make, 0..5_000).expect("no history fails");
        eprintln!("{failure}");
        assert!(failure.actions.len() < 20, "{failure}");
        assert!(failure.to_string().contains(&format!("MILLPOND_SEED={}", failure.seed)));
        failure
    }

    fn faulty(fault: Fault, cache: RecordCache) -> Failure {
        failure(|stores| {
            let engine = on_disk();
            let broken = move || Faulty::new(Box::new(engine()), fault);
            Box::new(Overlaid::new(Box::new(broken), cache, stores))
        })
    }

    #[test]
    fn a_lost_write() {
        faulty(Fault::LastWriteDropped, RecordCache::Tiny);
    }

    #[test]
    fn a_forgotten_delete() {
        faulty(Fault::DeletesForgotten, RecordCache::Off);
    }

    #[test]
    fn a_row_that_is_skipped_after_a_seek() {
        faulty(Fault::RowSkippedAfterSeek, RecordCache::Large);
    }

    #[test]
    fn a_reverse_walk_that_is_not_the_mirror() {
        faulty(Fault::ReverseIsNotTheMirror, RecordCache::Large);
    }

    #[test]
    fn a_key_that_is_not_found_with_others() {
        faulty(Fault::MultiGetMissesAKey, RecordCache::Reads);
    }

    #[test]
    fn an_empty_value_that_deletes() {
        faulty(Fault::EmptyValueDeletes, RecordCache::Off);
    }

    #[test]
    fn metadata_of_another_batch() {
        let failure = faulty(Fault::MetadataApart, RecordCache::Off);
        assert!(failure.message.contains("opened at batch"), "{failure}");
    }

    #[test]
    fn a_durable_position_that_is_not() {
        let failure = faulty(Fault::DurableTooEarly, RecordCache::Large);
        assert!(failure.message.contains("opened at batch"), "{failure}");
    }

    /// What is wrong above the engine.
    #[derive(Clone, Copy, PartialEq)]
    enum Wrong {
        /// What a failed record wrote stays.
        FailedRecordsStay,
        /// The rows of one more minute are dropped.
        DropsTooMuch,
    }

    struct WrongStack(Overlaid, Wrong);

    impl Stack for WrongStack {
        fn lend(&mut self, store: u16, body: &mut dyn FnMut(&mut dyn SpaceMut, &mut dyn SpaceMut)) {
            self.0.lend(store, body);
        }

        fn record_done(&mut self) {
            self.0.record_done();
        }

        fn record_failed(&mut self) {
            if self.1 == Wrong::FailedRecordsStay { self.0.record_done() } else { self.0.record_failed() }
        }

        fn commit(&mut self, metadata: &[u8]) {
            self.0.commit(metadata);
        }

        fn abort(&mut self) {
            self.0.abort();
        }

        fn shard(&mut self) -> &mut dyn Shard {
            self.0.shard()
        }

        fn drop_below(&mut self, key: &[u8]) {
            let minute = key.try_into().map_or(0, u32::from_be_bytes);
            let later = u32::from(self.1 == Wrong::DropsTooMuch);
            self.0.drop_below(&minute.saturating_add(later).to_be_bytes());
        }

        fn restart(&mut self, end: End) {
            self.0.restart(end);
        }
    }

    fn wrong(wrong: Wrong) -> Failure {
        let make = |stores| Overlaid::new(Box::new(on_disk()), RecordCache::Off, stores);
        failure(|stores| Box::new(WrongStack(make(stores), wrong)))
    }

    #[test]
    fn writes_of_failed_records() {
        let failure = wrong(Wrong::FailedRecordsStay);
        assert!(failure.actions.iter().any(|action| action == "the record fails"), "{failure}");
    }

    #[test]
    fn rows_that_are_dropped_alive() {
        let failure = wrong(Wrong::DropsTooMuch);
        assert!(failure.actions.iter().any(|action| action.starts_with("drop what has expired")), "{failure}");
    }
}
