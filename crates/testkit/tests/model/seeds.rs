//! Which seeds are run, on all cores.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::{Failure, MakeEngine, check};
use crate::compare::Compared;

/// The first `n` seeds, ten times as many if `MILLPOND_SLOW` is set; or those of `MILLPOND_SEED`: one, or `<from>..<to>`. And
/// whether they are the first.
pub(crate) fn chosen(n: u64) -> (Range<u64>, bool) {
    let all = if std::env::var_os("MILLPOND_SLOW").is_some() { n * 10 } else { n };
    match std::env::var("MILLPOND_SEED") {
        Ok(text) => {
            (parse(&text).unwrap_or_else(|| panic!("MILLPOND_SEED=`{text}` is no seed and no range of them")), false)
        }
        Err(_) => (0..all, true),
    }
}

fn parse(text: &str) -> Option<Range<u64>> {
    match text.split_once("..") {
        Some((from, to)) => Some(from.parse().ok()?..to.parse().ok()?),
        None => text.parse().ok().map(|seed: u64| seed..seed + 1),
    }
}

/// Runs seeds on as many threads as there are cores.
///
/// # Panics
///
/// If there is a difference: with the first failed seeds, and one of them in full.
pub(crate) fn run_all(seeds: Range<u64>, engine: MakeEngine<'_>) -> Compared {
    let next = AtomicU64::new(seeds.start);
    let (compared, failures) = (Mutex::new(Compared::default()), Mutex::new(Vec::<Box<Failure>>::new()));
    let work = || {
        // A library that is wrong everywhere need not be told so two thousand times.
        while failures.lock().unwrap().len() < 5 {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            match check(seed, engine) {
                Ok(more) => compared.lock().unwrap().add(&more),
                Err(failure) => failures.lock().unwrap().push(failure),
            }
        }
    };
    // What panics is caught and told of once, with its seed.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..cores).for_each(|_| drop(scope.spawn(work))));
    std::panic::set_hook(hook);
    let mut failures = failures.into_inner().unwrap();
    failures.sort_by_key(|failure| failure.seed);
    if let Some(first) = failures.first() {
        let seeds: Vec<u64> = failures.iter().map(|failure| failure.seed).collect();
        panic!("these seeds fail, and perhaps others: {seeds:?}\n{first}");
    }
    compared.into_inner().unwrap()
}
