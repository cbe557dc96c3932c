//! Settings of a client, and the way of its log into `tracing`.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;

use millpond_broker_api::{Error, ErrorKind, Result};
use rdkafka::bindings as rd;

use super::failure::text;

/// The settings of a client that is still to be made.
pub(crate) struct Conf(NonNull<rd::rd_kafka_conf_t>);

impl Conf {
    /// librdkafka's defaults, with the log in `tracing`.
    pub(crate) fn new() -> Self {
        // SAFETY: both calls have no preconditions; the callback touches nothing but its arguments.
        let conf = unsafe {
            let conf = rd::rd_kafka_conf_new();
            rd::rd_kafka_conf_set_log_cb(conf, Some(on_log));
            conf
        };
        Self(NonNull::new(conf).expect("librdkafka aborts when memory is out"))
    }

    /// Sets a value by librdkafka's name; refused with its own words. The value may be a secret, and is not told.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let refused = |text: String| {
            Error::new(ErrorKind::Fatal, "configure a Kafka client").with("setting", name).with("text", text)
        };
        let (Ok(c_name), Ok(c_value)) = (CString::new(name), CString::new(value)) else {
            return Err(refused("contains a zero byte".to_owned()));
        };
        let mut why: [c_char; 512] = [0; 512];
        // SAFETY: the configuration is ours, both strings and the buffer outlive the call, and the text in the buffer
        // ends with a zero byte.
        unsafe {
            let answer =
                rd::rd_kafka_conf_set(self.0.as_ptr(), c_name.as_ptr(), c_value.as_ptr(), why.as_mut_ptr(), why.len());
            match answer {
                rd::rd_kafka_conf_res_t::RD_KAFKA_CONF_OK => Ok(()),
                _ => Err(refused(text(why.as_ptr()))),
            }
        }
    }

    /// All of `values`.
    pub(crate) fn set_all<'a>(&mut self, values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
        values.into_iter().try_for_each(|(name, value)| self.set(name, value))
    }

    /// For the calls of this module.
    pub(super) fn as_ptr(&self) -> *mut rd::rd_kafka_conf_t {
        self.0.as_ptr()
    }

    /// Makes a client of it.
    pub(super) fn build(self, kind: rd::rd_kafka_type_t) -> Result<NonNull<rd::rd_kafka_t>> {
        let mut why: [c_char; 512] = [0; 512];
        // SAFETY: the configuration is ours; it belongs to the client if there is one, else it stays ours. The text in the
        // buffer ends with a zero byte.
        unsafe {
            match NonNull::new(rd::rd_kafka_new(kind, self.0.as_ptr(), why.as_mut_ptr(), why.len())) {
                Some(client) => {
                    std::mem::forget(self);
                    Ok(client)
                }
                None => Err(Error::new(ErrorKind::Fatal, "make a Kafka client").with("text", text(why.as_ptr()))),
            }
        }
    }
}

impl Drop for Conf {
    fn drop(&mut self) {
        // SAFETY: it has not become part of a client: `build` forgets those.
        unsafe { rd::rd_kafka_conf_destroy(self.0.as_ptr()) }
    }
}

/// Called by librdkafka's threads. Its log tells of topics, partitions, brokers and sizes, never of keys or values.
unsafe extern "C" fn on_log(_: *const rd::rd_kafka_t, level: c_int, facility: *const c_char, line: *const c_char) {
    // SAFETY: librdkafka passes strings that live until the callback returns.
    let (facility, line) = unsafe { (CStr::from_ptr(facility), CStr::from_ptr(line)) };
    let (facility, line) = (facility.to_string_lossy(), line.to_string_lossy());
    // Levels of syslog. None is an error of ours: what fails for good is told by the call that fails.
    match level {
        ..=4 => tracing::warn!(target: "librdkafka", %facility, "{line}"),
        5 | 6 => tracing::info!(target: "librdkafka", %facility, "{line}"),
        _ => tracing::debug!(target: "librdkafka", %facility, "{line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_name_the_setting_and_not_the_value() {
        let mut conf = Conf::new();
        for (name, value) in [("no.such.setting", "secret"), ("linger.ms", "secret"), ("client.id", "sec\0ret")] {
            let error = conf.set(name, value).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Fatal);
            let text = error.to_string();
            assert!(text.contains(name), "{text}");
            assert!(!text.contains("secret") && !text.contains("sec\0ret"), "{text}");
        }
        conf.set("linger.ms", "7").unwrap();
    }
}
