//! The conformance suite on both forms of the engine.

mod memory {
    millpond_store_conformance::conformance!(volatile, millpond_store_mem::MemEngine::default);
}

mod simulated_disk {
    use millpond_store_mem::{MemEngine, SimulatedDisk};

    millpond_store_conformance::conformance!(persistent, {
        let disk = SimulatedDisk::default();
        move || MemEngine::with_simulated_disk(&disk)
    });
}
