//! The case list that every storage engine must pass: on this engine, and on the wrapper around two engines.

mod custom {
    use millpond_example_custom_engine::CustomEngine;

    millpond_store_conformance::conformance!(persistent, CustomEngine::default);
}

/// Flushes by itself at nearly every batch.
mod small_flushes {
    use millpond_example_custom_engine::{CustomEngine, CustomSettings};

    millpond_store_conformance::conformance!(persistent, || {
        CustomEngine::new(CustomSettings { flush_bytes: 64, cache_bytes: Some(64 << 10) })
    });
}

mod counted {
    use std::sync::Arc;

    use millpond_example_custom_engine::{Counted, Counts};
    use millpond_store_mem::{MemEngine, SimulatedDisk};

    mod memory {
        use super::*;

        millpond_store_conformance::conformance!(volatile, || {
            Counted::new(MemEngine::default(), Arc::new(Counts::default()))
        });
    }

    mod simulated_disk {
        use super::*;

        millpond_store_conformance::conformance!(persistent, {
            let disk = SimulatedDisk::default();
            move || Counted::new(MemEngine::with_simulated_disk(&disk), Arc::new(Counts::default()))
        });
    }
}
