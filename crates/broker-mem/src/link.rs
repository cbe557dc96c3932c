//! Links: what members send to their group's coordinator, and the answers that wait for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::membership::{Incoming, Link, Reply, Request};

use crate::faults::{Op, Verdict};
use crate::state::{Shared, State, WakeFlag};

/// A request that may be answered later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    link: u64,
    request: u64,
}

/// An answer to a request.
pub(crate) type Answer = (Ticket, Reply);

/// All links.
#[derive(Default)]
pub(crate) struct Links {
    by_number: BTreeMap<u64, Mailbox>,
    opened: u64,
    requests: u64,
}

/// What is on its way to a member.
struct Mailbox {
    group: Arc<str>,
    incoming: VecDeque<(Duration, Incoming)>,
    /// The requests without an answer, and how late each answer will be.
    in_flight: Vec<(u64, Duration)>,
}

impl Links {
    fn open(&mut self, group: &Arc<str>) -> u64 {
        let number = self.opened;
        self.opened += 1;
        let (incoming, in_flight) = Default::default();
        self.by_number.insert(number, Mailbox { group: group.clone(), incoming, in_flight });
        number
    }

    /// A request's ticket; its answer will be `late`.
    fn ticket(&mut self, link: u64, late: Option<Duration>) -> Ticket {
        self.requests += 1;
        if let (Some(mailbox), Some(late)) = (self.by_number.get_mut(&link), late) {
            mailbox.in_flight.push((self.requests, late));
        }
        Ticket { link, request: self.requests }
    }

    /// Puts answers where they belong; nobody misses those of a lost request or a closed link.
    fn deliver(&mut self, now: Duration, answers: Vec<Answer>) {
        for (ticket, reply) in answers {
            let Some(mailbox) = self.by_number.get_mut(&ticket.link) else { continue };
            if let Some(at) = mailbox.in_flight.iter().position(|(request, _)| *request == ticket.request) {
                let (_, late) = mailbox.in_flight.remove(at);
                mailbox.incoming.push_back((now.saturating_add(late), Incoming::Reply(reply)));
            }
        }
    }

    fn disconnect(&mut self, link: u64, at: Duration) {
        if let Some(mailbox) = self.by_number.get_mut(&link) {
            mailbox.in_flight.clear();
            mailbox.incoming.push_back((at, Incoming::Disconnected));
        }
    }

    /// Cuts all links of a group.
    pub(crate) fn disconnect_group(&mut self, group: &str, now: Duration) {
        for mailbox in self.by_number.values_mut().filter(|m| &*m.group == group) {
            mailbox.in_flight.clear();
            mailbox.incoming.push_back((now, Incoming::Disconnected));
        }
    }

    /// What has arrived, or when something will. The end of a connection takes with it all that was sent over it, and what
    /// is still on its way: a later answer of it would pass for that to a request of the next connection.
    fn take(&mut self, link: u64, now: Duration) -> Result<Incoming, Option<Duration>> {
        let mailbox = self.by_number.get_mut(&link).ok_or(None)?;
        match mailbox.incoming.front() {
            Some((at, _)) if *at > now => Err(Some(*at)),
            _ => {
                let (_, incoming) = mailbox.incoming.pop_front().ok_or(None)?;
                if incoming == Incoming::Disconnected {
                    mailbox.incoming.clear();
                    mailbox.in_flight.clear();
                }
                Ok(incoming)
            }
        }
    }
}

impl State {
    /// Handles a member's request.
    fn request(&mut self, link: u64, group: &str, request: &Request, now: Duration) {
        let gives_up = now.saturating_add(self.options.request_timeout);
        let late = match self.faults.before(Op::Group { group, link, request }) {
            Verdict::Pass | Verdict::Unstable => Some(Duration::ZERO),
            Verdict::Delay(late) => Some(late),
            Verdict::DropReply => {
                self.links.disconnect(link, gives_up);
                None
            }
            Verdict::DropRequest => return self.links.disconnect(link, gives_up),
            Verdict::Disconnect | Verdict::Fail(_) => return self.links.disconnect(link, now),
            Verdict::Code(code) => {
                let ticket = self.links.ticket(link, Some(Duration::ZERO));
                return self.links.deliver(now, vec![(ticket, request.refusal(code))]);
            }
        };
        let ticket = self.links.ticket(link, late);
        let mut answers = Vec::new();
        let (group, mut cx) = self.groups.at(group, now, &self.options, &mut answers);
        group.handle(&mut cx, ticket, request);
        self.links.deliver(now, answers);
        self.rearm();
    }

    /// Lets the groups do what fell due.
    pub(crate) fn happen_in_groups(&mut self, now: Duration) {
        let mut answers = Vec::new();
        self.groups.happen(now, &self.options, &mut answers);
        self.links.deliver(now, answers);
    }
}

/// A member's connection to its group's coordinator.
pub(crate) struct MemLink {
    wake: Arc<WakeFlag>,
    group: Arc<str>,
    number: u64,
}

impl MemLink {
    pub(crate) fn new(shared: Arc<Shared>, group: &str) -> Self {
        let group = group.into();
        let number = shared.lock().links.open(&group);
        Self { wake: WakeFlag::new(shared), group, number }
    }
}

impl Link for MemLink {
    fn send(&mut self, request: &Request) {
        let shared = &self.wake.shared;
        shared.lock().request(self.number, &self.group, request, shared.now());
        shared.notify();
    }

    fn receive(&mut self, max_wait: Duration) -> Option<Incoming> {
        let shared = &self.wake.shared;
        let mut state = shared.lock();
        let deadline = shared.now().saturating_add(max_wait);
        loop {
            let at = match state.links.take(self.number, shared.now()) {
                Ok(incoming) => return Some(incoming),
                Err(at) => at.map_or(deadline, |at| at.min(deadline)),
            };
            if self.wake.take() || !shared.waits() || shared.now() >= deadline {
                return None;
            }
            state = shared.wait(state, at);
        }
    }

    fn waker(&self) -> Waker {
        self.wake.clone().into()
    }
}

impl Drop for MemLink {
    fn drop(&mut self) {
        self.wake.shared.lock().links.by_number.remove(&self.number);
    }
}
