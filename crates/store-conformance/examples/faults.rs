//! Shows which cases of the suite notice each of the ten named faults: `cargo xtask conformance --faults`.

use std::process::ExitCode;

use millpond_store_conformance::faults::{Fault, noticed_by};
use millpond_store_mem::{MemEngine, SimulatedDisk};

fn main() -> ExitCode {
    // A case that notices a fault panics, which is what is wanted here.
    std::panic::set_hook(Box::new(|_| ()));
    let mut caught = 0;
    for fault in Fault::ALL {
        let disk = SimulatedDisk::default();
        let noticed = noticed_by(&move || MemEngine::with_simulated_disk(&disk), fault);
        let names: Vec<_> = noticed.iter().map(|case| format!("{}::{}", case.area, case.name)).collect();
        let missing: Vec<_> = fault.cases().iter().filter(|case| !names.iter().any(|name| name == *case)).collect();
        caught += usize::from(!names.is_empty() && missing.is_empty());
        let verdict = if names.is_empty() { "NOT CAUGHT" } else { "caught" };
        println!(
            "{:<26} {verdict} by {} cases, by their rule: {}",
            fault.name(),
            names.len(),
            fault.cases().join(", ")
        );
        if !missing.is_empty() {
            println!("{:<26} NOT NOTICED by {missing:?}", "");
        }
    }
    println!(
        "{caught} of {} faults are caught, all of them by cases that were there before the fault",
        Fault::ALL.len()
    );
    if caught == Fault::ALL.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
