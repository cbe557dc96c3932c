//! Durations that a topology is given, in whole milliseconds, or what is wrong with them.

use std::time::Duration;

/// The milliseconds of a duration that has at least so many. Otherwise how a message goes on that says what is wrong, such as
/// `the gap is ..`.
pub(crate) fn counted(duration: Duration, least: i64) -> Result<i64, String> {
    let millis = duration.as_millis();
    if i64::try_from(millis).is_err() {
        return Err(format!("{millis} ms; {} ms is the longest that can be counted", i64::MAX));
    }
    match whole(duration)? {
        millis if millis < least => Err(format!("{millis} ms; at least {least} ms is needed")),
        millis => Ok(millis),
    }
}

/// As [`counted`], where the longest that can be counted stands for all that is longer.
pub(crate) fn whole(duration: Duration) -> Result<i64, String> {
    match i64::try_from(duration.as_millis()) {
        Err(_) => Ok(i64::MAX),
        Ok(millis) if Duration::from_millis(millis.unsigned_abs()) == duration => Ok(millis),
        Ok(_) => Err(format!("{duration:?}; times are whole milliseconds")),
    }
}
