//! Errors of a program that has nobody to act on them: they are printed, with their causes, and end it.

use std::error::Error;

/// A result of such a program.
pub type Result<T = ()> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// The message and those of its causes that it does not tell itself.
pub fn spell(error: &(dyn Error + 'static)) -> String {
    let mut text = format!("{error:#}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}
