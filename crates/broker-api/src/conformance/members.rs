//! The member's machine over the broker: what applications will see of groups.

use std::time::Duration;

use super::bench::{Bench, LIMIT};
use super::peer::assignment_for;
use crate::membership::{Command, Event, Incoming, Link, Machine, Settings, State, Why, code};

/// A machine with its link; commits and assigns without delay, and takes notes.
struct Driver {
    machine: Machine,
    link: Box<dyn Link>,
    generations: Vec<Generation>,
    prepared: usize,
    lost: Vec<Why>,
}

#[derive(Clone, Debug)]
struct Generation {
    number: i32,
    assignment: Vec<u8>,
    is_leader: bool,
}

impl Driver {
    fn with(b: &Bench<'_>, group: &str, name: &str, settings: Settings) -> Self {
        let link = b.broker().group_link(group).expect("a link");
        let machine = Machine::new(settings, name.as_bytes().to_vec());
        Self { machine, link, generations: Vec::new(), prepared: 0, lost: Vec::new() }
    }

    fn new(b: &Bench<'_>, group: &str, name: &str) -> Self {
        Self::with(b, group, name, Settings::default())
    }

    fn fixed(b: &Bench<'_>, group: &str, name: &str) -> Self {
        Self::with(b, group, name, Settings { instance_id: Some(name.into()), ..Settings::default() })
    }

    /// Takes in what is there, and does what follows.
    fn step(&mut self, now: Duration) {
        if self.machine.deadline() <= now {
            self.event(now, Event::Tick);
        }
        while let Some(incoming) = self.link.receive(Duration::ZERO) {
            let event = match incoming {
                Incoming::Reply(reply) => Event::Reply(reply),
                Incoming::Disconnected => Event::Disconnected,
            };
            self.event(now, event);
        }
    }

    fn event(&mut self, now: Duration, event: Event) {
        let mut out = Vec::new();
        self.machine.handle(now, event, &mut out);
        for command in out {
            match command {
                Command::Send(request) => self.link.send(&request),
                Command::Assign(members) => {
                    let all = members.iter().map(|m| (m.member_id.clone(), assignment_for(&m.metadata))).collect();
                    self.event(now, Event::Assigned(all));
                }
                Command::Prepare { .. } => {
                    self.prepared += 1;
                    self.event(now, Event::Committed);
                }
                Command::NewGeneration { generation, assignment, is_leader, .. } => {
                    self.generations.push(Generation { number: generation, assignment, is_leader });
                }
                Command::Lost(why) => self.lost.push(why),
                Command::Gone => {}
            }
        }
    }

    fn generation(&self) -> i32 {
        self.generations.last().map_or(-1, |g| g.number)
    }

    fn is_stable(&self) -> bool {
        self.machine.state() == State::Stable
    }
}

/// Steps the drivers until it is `done`.
#[track_caller]
fn run(b: &mut Bench<'_>, drivers: &mut [&mut Driver], done: impl Fn(&[&mut Driver]) -> bool) {
    let end = b.env().clock().now() + LIMIT;
    loop {
        let now = b.env().clock().now();
        for driver in &mut *drivers {
            driver.step(now);
        }
        if done(drivers) {
            return;
        }
        let states: Vec<_> = drivers.iter().map(|d| (d.machine.state(), d.generation(), d.lost.clone())).collect();
        assert!(now < end, "it does not come: {states:?}");
        b.breathe();
    }
}

/// All are stable in the same generation, later than `after`.
fn together(after: i32) -> impl Fn(&[&mut Driver]) -> bool {
    move |drivers| {
        let generation = drivers[0].generation();
        generation > after && drivers.iter().all(|d| d.is_stable() && d.generation() == generation)
    }
}

pub(super) fn machine_alone_becomes_stable(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut a = Driver::new(b, &group, "a");
    run(b, &mut [&mut a], together(0));
    let generation = a.generations.last().unwrap();
    assert!(generation.is_leader);
    assert_eq!(generation.assignment, b"for a");
    assert!(a.lost.is_empty());
}

pub(super) fn machines_share_a_generation(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut drivers = ["a", "b", "c"].map(|name| Driver::new(b, &group, name));
    let mut all: Vec<_> = drivers.iter_mut().collect();
    run(b, &mut all, together(0));
    assert_eq!(drivers.iter().filter(|d| d.generations.last().unwrap().is_leader).count(), 1);
    for (driver, name) in drivers.iter().zip(["a", "b", "c"]) {
        assert_eq!(driver.generations.last().unwrap().assignment, assignment_for(name.as_bytes()));
        assert!(driver.lost.is_empty(), "{:?}", driver.lost);
    }
}

pub(super) fn newcomer_lets_the_others_commit_first(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut a = Driver::new(b, &group, "a");
    run(b, &mut [&mut a], together(0));
    let (before, prepared) = (a.generation(), a.prepared);
    let mut c = Driver::new(b, &group, "c");
    run(b, &mut [&mut a, &mut c], together(before));
    assert!(a.prepared > prepared);
    assert_eq!(c.prepared, 0, "it had nothing to commit");
    assert!(a.lost.is_empty());
}

pub(super) fn machine_that_leaves_is_missed_at_once(b: &mut Bench<'_>) {
    let group = b.name("group");
    let (mut a, mut c) = (Driver::new(b, &group, "a"), Driver::new(b, &group, "c"));
    run(b, &mut [&mut a, &mut c], together(0));
    let before = a.generation();
    let now = b.env().clock().now();
    c.event(now, Event::Leave);
    run(b, &mut [&mut c], |d| d[0].machine.state() == State::Gone);
    run(b, &mut [&mut a], together(before));
    assert!(a.lost.is_empty() && c.lost.is_empty());
}

pub(super) fn new_user_data_reaches_the_leader(b: &mut Bench<'_>) {
    let group = b.name("group");
    let (mut a, mut c) = (Driver::new(b, &group, "a"), Driver::new(b, &group, "c"));
    run(b, &mut [&mut a, &mut c], together(0));
    let before = a.generation();
    let now = b.env().clock().now();
    c.event(now, Event::Metadata(b"c2".to_vec()));
    run(b, &mut [&mut a, &mut c], together(before));
    assert_eq!(c.generations.last().unwrap().assignment, b"for c2");
    let before = a.generation();
    let now = b.env().clock().now();
    a.event(now, Event::Metadata(b"a2".to_vec()));
    run(b, &mut [&mut a, &mut c], together(before));
    assert_eq!(a.generations.last().unwrap().assignment, b"for a2");
}

pub(super) fn frozen_machine_is_lost_and_comes_back(b: &mut Bench<'_>) {
    let group = b.name("group");
    let settings = Settings::default().with_session_timeout(Duration::from_secs(6));
    let mut frozen = Driver::with(b, &group, "frozen", settings);
    let mut other = Driver::new(b, &group, "other");
    run(b, &mut [&mut frozen, &mut other], together(0));
    let before = other.generation();
    for _ in 0..9 {
        b.pass(Duration::from_secs(1));
        let now = b.env().clock().now();
        other.step(now);
    }
    run(b, &mut [&mut other], together(before));
    let before = other.generation();
    run(b, &mut [&mut frozen, &mut other], together(before));
    assert_eq!(frozen.lost, [Why::Session], "it knows by itself");
    assert!(other.lost.is_empty());
}

pub(super) fn static_machine_takes_its_place_back(b: &mut Bench<'_>) {
    let group = b.name("group");
    let (mut a, mut old) = (Driver::fixed(b, &group, "a"), Driver::fixed(b, &group, "c"));
    run(b, &mut [&mut a, &mut old], together(0));
    let (generation, prepared) = (a.generation(), a.prepared);
    // Killed: it says nothing any more.
    let mut new = Driver::fixed(b, &group, "c");
    run(b, &mut [&mut a, &mut new], |d| d[1].is_stable());
    assert_eq!(new.generation(), generation);
    assert_eq!(new.generations.last().unwrap().assignment, b"for c");
    run(b, &mut [&mut a, &mut new], |d| d.iter().all(|d| d.is_stable()));
    assert_eq!(a.prepared, prepared, "nobody else noticed");
}

pub(super) fn twin_of_a_static_machine_stops(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut old = Driver::fixed(b, &group, "a");
    run(b, &mut [&mut old], together(0));
    let mut new = Driver::fixed(b, &group, "a");
    run(b, &mut [&mut new], together(0));
    run(b, &mut [&mut old, &mut new], |d| d[0].machine.state() == State::Gone);
    assert_eq!(old.lost, [Why::Twin]);
    assert!(new.is_stable() && new.lost.is_empty());
}

pub(super) fn machine_of_another_protocol_is_refused(b: &mut Bench<'_>) {
    let group = b.name("group");
    let mut java = Driver::with(b, &group, "java", Settings { protocol: "stream".into(), ..Settings::default() });
    run(b, &mut [&mut java], together(0));
    let mut ours = Driver::new(b, &group, "ours");
    run(b, &mut [&mut java, &mut ours], |d| d[1].machine.state() == State::Gone);
    assert_eq!(ours.lost, [Why::Refused { code: code::INCONSISTENT_GROUP_PROTOCOL }]);
    assert!(ours.lost[0].remedy().contains("stop the Java application first"));
}
