//! What a client says of itself as a whole: lost connections are told to the log, wrong credentials to the caller.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_broker_api::{Clock, Error, SystemClock};

use crate::error;
use crate::ffi::{Complaint, code};

/// The same complaint is told once in so long a time: while a broker is down it comes again and again.
const SILENCE: Duration = Duration::from_secs(30);

/// Sorts complaints, and remembers which were told.
#[derive(Debug)]
pub(crate) struct Watch {
    op: &'static str,
    clock: SystemClock,
    /// When a code was told last.
    told: BTreeMap<i32, Duration>,
}

impl Watch {
    /// `op` is what the client is for, such as `read from Kafka`.
    pub(crate) fn new(op: &'static str) -> Self {
        Self { op, clock: SystemClock::new(), told: BTreeMap::new() }
    }

    /// An error, if the client will not get better by itself; anything else goes to the log.
    pub(crate) fn judge(&mut self, complaint: Complaint) -> Option<Error> {
        let Complaint { code, text } = complaint;
        if code == code::GROUP_AUTHORIZATION {
            tracing::debug!(code, text, "the reader's group is a formality");
            return None;
        }
        if is_hopeless(code, &text) {
            return Some(error::of_client(self.op, code, &text));
        }
        self.tell(code, &text);
        None
    }

    fn tell(&mut self, code: i32, text: &str) {
        let now = self.clock.now();
        if self.told.get(&code).is_some_and(|told| now.saturating_sub(*told) < SILENCE) {
            tracing::debug!(code, text, op = self.op, "Kafka client");
            return;
        }
        self.told.insert(code, now);
        tracing::warn!(code, text, op = self.op, "Kafka client; it goes on trying");
    }
}

/// TLS fails for good where a certificate is not trusted, and a login where the password is wrong; both also fail for a moment
/// where a broker goes down meanwhile, and librdkafka tells that in the text alone.
fn is_hopeless(code: i32, text: &str) -> bool {
    match code {
        code::AUTHENTICATION => !["Broker transport failure", "Timed out"].iter().any(|passing| text.contains(passing)),
        code::SSL => text.contains("certificate"),
        code => matches!(code, code::UNSUPPORTED | code::FATAL),
    }
}

#[cfg(test)]
mod tests {
    use millpond_broker_api::ErrorKind;

    use super::*;

    fn judge(code: i32, text: &str) -> Option<ErrorKind> {
        Watch::new("test").judge(Complaint { code, text: text.to_owned() }).map(|e| e.kind())
    }

    #[test]
    fn what_gets_better_by_itself_is_no_error() {
        assert_eq!(judge(-195, "connection refused"), None);
        assert_eq!(judge(code::SSL, "disconnected while the handshake was under way"), None);
        assert_eq!(judge(code::GROUP_AUTHORIZATION, "group"), None);
        let closed = "SASL SCRAM-SHA-512 mechanism handshake failed: Local: Broker transport failure";
        assert_eq!(judge(code::AUTHENTICATION, closed), None);
        assert_eq!(judge(code::AUTHENTICATION, "mechanism handshake failed: Local: Timed out"), None);
    }

    #[test]
    fn what_stays_is_fatal() {
        assert_eq!(judge(code::AUTHENTICATION, "wrong password"), Some(ErrorKind::Fatal));
        assert_eq!(judge(code::SSL, "certificate verify failed: self-signed"), Some(ErrorKind::Fatal));
    }
}
