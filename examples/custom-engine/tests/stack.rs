//! The full stack over this engine: the kinds through the overlay, a whole task, and random histories with crashes.

use millpond_example_custom_engine::CustomEngine;
use millpond_testkit::stack::{RecordCache, check_histories};

mod overlay {
    millpond_testkit::stack_conformance!(super::CustomEngine::default);
}

#[test]
fn histories() {
    for (cache, seeds) in RecordCache::ALL.into_iter().zip([0..30, 30..60, 60..90, 90..120]) {
        check_histories(|| CustomEngine::default, cache, seeds);
    }
}
