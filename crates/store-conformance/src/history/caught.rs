//! Panics as values, without a line on the screen for each.

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    static CATCHING: Cell<bool> = const { Cell::new(false) };
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// Runs the body; answers where it panicked and why. Other threads' panics are reported as ever.
pub(super) fn caught(body: impl FnOnce()) -> Result<(), String> {
    HOOK.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| if CATCHING.get() { LAST.set(info.to_string()) } else { before(info) }));
    });
    CATCHING.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    CATCHING.set(false);
    outcome.map_err(|_| LAST.take())
}
