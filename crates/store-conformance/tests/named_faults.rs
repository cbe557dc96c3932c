//! Every named fault is noticed, by the cases whose rule it breaks.

use millpond_store_conformance::faults::{Fault, noticed_by};
use millpond_store_conformance::{CASES, Needs};
use millpond_store_mem::{MemEngine, SimulatedDisk};

fn names(fault: Fault) -> Vec<String> {
    let disk = SimulatedDisk::default();
    let noticed = noticed_by(&move || MemEngine::with_simulated_disk(&disk), fault);
    noticed.iter().map(|case| format!("{}::{}", case.area, case.name)).collect()
}

/// A test per fault, so that each says what it noticed.
macro_rules! noticed {
    ($($test:ident: $fault:ident,)*) => {
        $(#[test]
        fn $test() {
            let names = names(Fault::$fault);
            for case in Fault::$fault.cases() {
                assert!(names.iter().any(|name| name == case), "`{case}` does not notice it, only {names:?} do");
            }
        })*

        #[test]
        fn all_faults_have_a_test() {
            assert_eq!([$(Fault::$fault),*], Fault::ALL);
        }
    };
}

noticed! {
    the_last_write_of_a_batch_is_lost: LastWriteDropped,
    deletes_are_forgotten: DeletesForgotten,
    a_row_is_skipped_after_a_seek: RowSkippedAfterSeek,
    reverse_is_not_the_mirror: ReverseIsNotTheMirror,
    multi_get_misses_a_key: MultiGetMissesAKey,
    durable_is_told_too_early: DurableTooEarly,
    metadata_and_rows_are_apart: MetadataApart,
    a_reader_sees_a_refused_batch: ReaderSeesRefusedBatch,
    drop_below_drops_one_key_too_many: DropBelowOneTooMany,
    an_empty_value_deletes: EmptyValueDeletes,
}

#[test]
fn the_faults_that_show_without_a_crash_are_noticed_on_a_volatile_engine_too() {
    let crash = [Fault::DurableTooEarly, Fault::MetadataApart];
    for fault in Fault::ALL.into_iter().filter(|fault| !crash.contains(fault)) {
        let noticed = noticed_by(&MemEngine::default, fault);
        assert!(noticed.iter().any(|case| fault.cases().contains(&&*format!("{}::{}", case.area, case.name))));
        assert!(noticed.iter().all(|case| case.needs != Needs::Persistent));
    }
}

#[test]
fn the_cases_that_a_fault_names_are_in_the_list_and_names_are_unique() {
    let mut names: Vec<_> = Fault::ALL.iter().map(|fault| fault.name()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 10);
    for name in Fault::ALL.iter().flat_map(|fault| fault.cases()) {
        assert!(CASES.iter().any(|case| format!("{}::{}", case.area, case.name) == *name), "`{name}`");
    }
}
