//! The member's machine: each row of its table, and random events that never leave it.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::state::LEGAL;
use super::{Command, Event, Machine, MemberInfo, Reply, Request, Settings, State, Why, code};

const ALL: [State; 8] = [
    State::Finding,
    State::Joining,
    State::Syncing,
    State::Stable,
    State::Preparing,
    State::Lost,
    State::Leaving,
    State::Gone,
];

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A machine and its time.
struct Member {
    machine: Machine,
    now: Duration,
}

impl Member {
    fn with(settings: Settings) -> Self {
        Self { machine: Machine::new(settings, b"m1".to_vec()), now: ms(1_000) }
    }

    fn new() -> Self {
        Self::with(Settings::default())
    }

    fn on(&mut self, event: Event) -> Vec<Command> {
        let mut out = Vec::new();
        self.machine.handle(self.now, event, &mut out);
        out
    }

    fn tick_after(&mut self, time: Duration) -> Vec<Command> {
        self.now += time;
        self.on(Event::Tick)
    }

    fn reply(&mut self, reply: Reply) -> Vec<Command> {
        self.on(Event::Reply(reply))
    }

    fn found(&mut self) -> Vec<Command> {
        self.reply(Reply::Coordinator { code: code::NONE })
    }

    fn joined(&mut self, generation: i32, leader: bool) -> Vec<Command> {
        self.reply(join_reply(code::NONE, generation, "m-1", leader))
    }

    fn synced(&mut self) -> Vec<Command> {
        self.reply(Reply::Sync { code: code::NONE, assignment: b"a".to_vec() })
    }

    /// A follower of generation 5.
    fn stable(settings: Settings) -> Self {
        let mut member = Self::with(settings);
        member.on(Event::Tick);
        member.found();
        member.joined(5, false);
        member.synced();
        assert_eq!(member.machine.state(), State::Stable);
        member
    }

    /// Lets the next heartbeat go out.
    fn heartbeat(&mut self) -> Vec<Command> {
        self.tick_after(ms(1_000))
    }
}

fn join_reply(code: i16, generation: i32, member_id: &str, leader: bool) -> Reply {
    let members = vec![MemberInfo { member_id: "m-1".into(), instance_id: None, metadata: b"m1".to_vec() }];
    Reply::Join {
        code,
        generation,
        member_id: member_id.into(),
        leader,
        skip_assignment: false,
        members: if leader { members } else { Vec::new() },
    }
}

fn join(member_id: &str, metadata: &[u8]) -> Command {
    Command::Send(Request::Join {
        member_id: member_id.into(),
        instance_id: None,
        session_timeout: ms(45_000),
        rebalance_timeout: ms(8_000),
        protocol: "millpond-1".into(),
        metadata: metadata.to_vec(),
    })
}

fn sync(assignments: Vec<(Arc<str>, Vec<u8>)>) -> Command {
    Command::Send(Request::Sync { generation: 5, member_id: "m-1".into(), instance_id: None, assignments })
}

fn heartbeat() -> Command {
    Command::Send(Request::Heartbeat { generation: 5, member_id: "m-1".into(), instance_id: None })
}

fn find() -> Command {
    Command::Send(Request::FindCoordinator)
}

fn stable_as(is_leader: bool) -> Command {
    Command::NewGeneration { generation: 5, member_id: "m-1".into(), assignment: b"a".to_vec(), is_leader }
}

#[test]
fn every_state_has_a_row() {
    assert_eq!(LEGAL.iter().map(|(state, _)| *state).collect::<Vec<_>>(), ALL);
    assert!(!ALL.iter().any(|to| State::Gone.may_become(*to)));
}

#[test]
fn first_join_takes_the_id_it_is_given() {
    let mut m = Member::new();
    assert_eq!(m.on(Event::Tick), [find()]);
    assert_eq!(m.found(), [join("", b"m1")]);
    assert_eq!(m.reply(join_reply(code::MEMBER_ID_REQUIRED, -1, "m-1", false)), [join("m-1", b"m1")]);
    assert_eq!(m.joined(5, false), [sync(vec![])]);
    assert_eq!(m.machine.state(), State::Syncing);
    assert_eq!(m.synced(), [stable_as(false)]);
    assert_eq!(m.machine.state(), State::Stable);
}

#[test]
fn leader_assigns_before_it_syncs() {
    let mut m = Member::new();
    m.on(Event::Tick);
    m.found();
    let commands = m.joined(5, true);
    assert!(matches!(commands.as_slice(), [Command::Assign(members)] if members.len() == 1), "{commands:?}");
    assert_eq!(m.tick_after(ms(5_000)), []);
    let all = vec![("m-1".into(), b"a".to_vec())];
    assert_eq!(m.on(Event::Assigned(all.clone())), [sync(all.clone())]);
    assert_eq!(m.on(Event::Assigned(all)), [], "the sync is on its way");
    assert_eq!(m.synced(), [stable_as(true)]);
}

#[test]
fn leader_that_is_to_skip_the_assignment_syncs_at_once() {
    let mut m = Member::new();
    m.on(Event::Tick);
    m.found();
    let Reply::Join { code, generation, member_id, leader, members, .. } = join_reply(0, 5, "m-1", true) else {
        panic!()
    };
    let reply = Reply::Join { code, generation, member_id, leader, skip_assignment: true, members };
    assert_eq!(m.reply(reply), [sync(vec![])]);
    assert_eq!(m.synced(), [stable_as(true)]);
}

#[test]
fn heartbeats_go_out_by_the_interval_one_at_a_time() {
    let mut m = Member::stable(Settings::default());
    assert_eq!(m.machine.deadline(), m.now + ms(1_000));
    assert_eq!(m.tick_after(ms(999)), []);
    assert_eq!(m.tick_after(ms(1)), [heartbeat()]);
    assert_eq!(m.tick_after(ms(3_000)), [], "one request in flight");
    assert_eq!(m.reply(Reply::Heartbeat { code: code::NONE }), [heartbeat()], "overdue");
    assert_eq!(m.reply(Reply::Heartbeat { code: code::NONE }), []);
    assert_eq!(m.heartbeat(), [heartbeat()]);
}

#[test]
fn rebalance_lets_everyone_commit_then_joins() {
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    let deadline = m.now + ms(4_000);
    assert_eq!(m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS }), [Command::Prepare { deadline }]);
    assert_eq!(m.machine.state(), State::Preparing);
    assert_eq!(m.heartbeat(), [heartbeat()], "heartbeats go on");
    assert_eq!(m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS }), [], "announced once");
    assert_eq!(m.on(Event::Committed), [join("m-1", b"m1")]);
    assert_eq!(m.on(Event::Committed), [], "once");
}

#[test]
fn join_waits_for_the_heartbeat_in_flight() {
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS });
    assert_eq!(m.heartbeat(), [heartbeat()]);
    assert_eq!(m.on(Event::Committed), []);
    assert_eq!(m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS }), [join("m-1", b"m1")]);
}

#[test]
fn stuck_workers_are_left_out_at_the_deadline() {
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS });
    let mut commands = Vec::new();
    for _ in 0..4 {
        commands = m.heartbeat();
        if m.machine.state() == State::Preparing {
            m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS });
        }
    }
    assert_eq!(commands, [join("m-1", b"m1")]);
    assert_eq!(m.on(Event::Committed), [], "too late");
}

#[test]
fn new_metadata_starts_a_rebalance_of_ones_own() {
    let mut m = Member::stable(Settings::default());
    let deadline = m.now + ms(4_000);
    assert_eq!(m.on(Event::Metadata(b"m2".to_vec())), [Command::Prepare { deadline }]);
    assert_eq!(m.on(Event::Committed), [join("m-1", b"m2")]);
}

#[test]
fn metadata_during_a_rebalance_follows_when_that_is_complete() {
    let mut m = Member::new();
    m.on(Event::Tick);
    m.on(Event::Metadata(b"m2".to_vec()));
    assert_eq!(m.found(), [join("", b"m2")], "the join that comes carries it");
    assert_eq!(m.on(Event::Metadata(b"m3".to_vec())), [], "this one is too late for it");
    assert_eq!(m.joined(5, false), [sync(vec![])]);
    let deadline = m.now + ms(4_000);
    assert_eq!(m.synced(), [stable_as(false), Command::Prepare { deadline }]);
    assert_eq!(m.on(Event::Committed), [join("m-1", b"m3")]);
}

#[test]
fn rebalance_during_a_sync_joins_again() {
    let mut m = Member::new();
    m.on(Event::Tick);
    m.found();
    m.joined(5, false);
    let reply = Reply::Sync { code: code::REBALANCE_IN_PROGRESS, assignment: vec![] };
    assert_eq!(m.reply(reply), [join("m-1", b"m1")]);
}

#[test]
fn session_without_heartbeats_ends_by_itself() {
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    m.reply(Reply::Heartbeat { code: code::NONE });
    let sent = m.now;
    assert_eq!(m.heartbeat(), [heartbeat()]);
    m.now = sent + ms(44_999);
    assert_eq!(m.on(Event::Tick), []);
    assert!(m.machine.deadline() <= sent + ms(45_000));
    assert_eq!(m.tick_after(ms(1)), [Command::Lost(Why::Session)]);
    // The old heartbeat is still on its way; its answer means nothing any more.
    assert_eq!(m.reply(Reply::Heartbeat { code: code::NONE }), [find()]);
    assert_eq!(m.found(), [join("m-1", b"m1")], "no ghost is left behind");
    assert_eq!(m.reply(join_reply(code::UNKNOWN_MEMBER_ID, -1, "", false)), [join("", b"m1")], "nothing to lose twice");
}

#[test]
fn answer_after_the_session_is_too_late() {
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    m.now += ms(45_000);
    let commands = m.reply(Reply::Heartbeat { code: code::NONE });
    assert_eq!(commands, [Command::Lost(Why::Session), find()]);
}

#[test]
fn session_ends_while_preparing_and_while_finding() {
    let settings = Settings { prepare_time: ms(100_000), ..Settings::default() };
    let mut m = Member::stable(settings.clone());
    m.on(Event::Metadata(vec![]));
    assert_eq!(m.tick_after(ms(45_000)), [Command::Lost(Why::Session), find()]);
    let mut m = Member::stable(settings);
    m.on(Event::Disconnected);
    assert_eq!(m.tick_after(ms(45_000)), [Command::Lost(Why::Session), find()]);
}

#[test]
fn pending_join_may_outlast_the_session_by_the_rebalance_timeout_only() {
    let settings = Settings { rebalance_timeout: ms(60_000), ..Settings::default() }.with_session_timeout(ms(10_000));
    let mut m = Member::stable(settings);
    m.on(Event::Metadata(vec![]));
    m.on(Event::Committed);
    assert_eq!(m.tick_after(ms(59_999)), []);
    assert_eq!(m.machine.state(), State::Joining);
    assert_eq!(m.tick_after(ms(1)), [Command::Lost(Why::Session)]);
}

#[test]
fn lost_coordinator_keeps_the_membership() {
    for code in [code::COORDINATOR_LOAD_IN_PROGRESS, code::COORDINATOR_NOT_AVAILABLE, code::NOT_COORDINATOR, -1] {
        let mut m = Member::stable(Settings::default());
        m.heartbeat();
        assert_eq!(m.reply(Reply::Heartbeat { code }), []);
        assert_eq!(m.machine.state(), State::Finding);
        assert_eq!(m.machine.last_error(), Some(code));
        assert_eq!(m.tick_after(ms(99)), []);
        assert_eq!(m.tick_after(ms(1)), [find()]);
        assert_eq!(m.reply(Reply::Coordinator { code }), []);
        assert_eq!(m.tick_after(ms(100)), [find()], "after a pause");
        assert_eq!(m.found(), [heartbeat()]);
        assert_eq!(m.machine.state(), State::Stable);
    }
}

#[test]
fn disconnection_keeps_the_membership_and_repeats_a_join() {
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    assert_eq!(m.on(Event::Disconnected), []);
    assert_eq!(m.tick_after(ms(100)), [find()]);
    assert_eq!(m.on(Event::Disconnected), []);
    assert_eq!(m.tick_after(ms(100)), [find()]);
    assert_eq!(m.found(), [heartbeat()]);
    m.on(Event::Metadata(b"m2".to_vec()));
    m.on(Event::Committed);
    m.reply(Reply::Heartbeat { code: code::NONE });
    assert_eq!(m.machine.state(), State::Joining);
    m.on(Event::Disconnected);
    m.tick_after(ms(100));
    assert_eq!(m.found(), [join("m-1", b"m2")]);
}

#[test]
fn commits_and_deadlines_count_while_the_coordinator_is_looked_for() {
    for by_deadline in [false, true] {
        let mut m = Member::stable(Settings::default());
        m.on(Event::Metadata(b"m2".to_vec()));
        m.on(Event::Disconnected);
        if by_deadline {
            m.tick_after(ms(4_000));
        } else {
            m.on(Event::Committed);
            m.tick_after(ms(100));
        }
        assert_eq!(m.found(), [join("m-1", b"m2")]);
    }
    let mut m = Member::stable(Settings::default());
    let deadline = m.now + ms(4_000);
    m.on(Event::Disconnected);
    assert_eq!(m.on(Event::Metadata(b"m2".to_vec())), []);
    m.tick_after(ms(100));
    assert_eq!(m.found(), [Command::Prepare { deadline: deadline + ms(100) }, heartbeat()]);
}

#[test]
fn unknown_members_join_anew() {
    for (code, id) in [(code::UNKNOWN_MEMBER_ID, ""), (code::ILLEGAL_GENERATION, "m-1")] {
        let mut m = Member::stable(Settings::default());
        m.heartbeat();
        assert_eq!(m.reply(Reply::Heartbeat { code }), [Command::Lost(Why::Unknown), find()]);
        assert_eq!(m.found(), [join(id, b"m1")]);
    }
}

#[test]
fn unknown_member_at_join_and_sync_of_a_rebalance() {
    let mut m = Member::stable(Settings::default());
    m.on(Event::Metadata(vec![]));
    m.on(Event::Committed);
    let commands = m.reply(join_reply(code::UNKNOWN_MEMBER_ID, -1, "", false));
    assert_eq!(commands, [Command::Lost(Why::Unknown), find()]);
    m.found();
    m.joined(5, false);
    let reply = Reply::Sync { code: code::ILLEGAL_GENERATION, assignment: vec![] };
    assert_eq!(m.reply(reply), [Command::Lost(Why::Unknown), find()]);
}

#[test]
fn static_id_goes_with_every_request() {
    let mut m = Member::with(Settings { instance_id: Some("i".into()), ..Settings::default() });
    let mut requests = m.on(Event::Tick);
    requests.extend(m.found());
    requests.extend(m.joined(5, false));
    m.synced();
    requests.extend(m.heartbeat());
    m.reply(Reply::Heartbeat { code: code::UNKNOWN_MEMBER_ID });
    requests.extend(m.found());
    m.joined(6, false);
    requests.extend(m.on(Event::Leave));
    requests.extend(m.reply(Reply::Sync { code: code::NONE, assignment: vec![] }));
    let ids: Vec<_> = requests
        .iter()
        .filter_map(|c| match c {
            Command::Send(
                Request::Join { instance_id, .. }
                | Request::Sync { instance_id, .. }
                | Request::Heartbeat { instance_id, .. }
                | Request::Leave { instance_id, .. },
            ) => Some(instance_id.as_deref()),
            _ => None,
        })
        .collect();
    assert_eq!(ids, [Some("i"); 5]);
}

#[test]
fn twin_and_refusals_are_the_end() {
    let refused = |code| Why::Refused { code };
    let rows = [
        (code::FENCED_INSTANCE_ID, Why::Twin),
        (code::INCONSISTENT_GROUP_PROTOCOL, refused(23)),
        (code::INVALID_SESSION_TIMEOUT, refused(26)),
        (code::GROUP_AUTHORIZATION_FAILED, refused(30)),
    ];
    for (code, why) in rows {
        let mut m = Member::new();
        m.on(Event::Tick);
        m.found();
        assert_eq!(m.reply(join_reply(code, -1, "", false)), [Command::Lost(why), Command::Gone]);
        assert_eq!(m.machine.state(), State::Gone);
        assert_eq!(m.machine.deadline(), Duration::MAX);
        assert_eq!(m.tick_after(ms(100_000)), []);
    }
    assert!(refused(23).remedy().starts_with("stop the Java application first"));
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    let commands = m.reply(Reply::Heartbeat { code: code::FENCED_INSTANCE_ID });
    assert_eq!(commands, [Command::Lost(Why::Twin), Command::Gone]);
}

#[test]
fn b116_work_is_exclusive_until_a_rebalance_could_have_removed_the_member() {
    let member = Member::new();
    assert_eq!(member.machine.exclusive_until(), None, "no membership, nothing exclusive");
    let settings = Settings::default();
    let mut member = Member::stable(settings.clone());
    let joined = member.machine.exclusive_until().unwrap();
    member.tick_after(settings.heartbeat_interval);
    let sent = member.now;
    member.reply(Reply::Heartbeat { code: code::NONE });
    assert_eq!(member.machine.exclusive_until(), Some(sent + settings.rebalance_timeout));
    assert!(member.machine.exclusive_until() > Some(joined));
    // A rebalance is under way: its clock runs from some moment after the last good answer.
    member.tick_after(settings.heartbeat_interval);
    member.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS });
    assert_eq!(member.machine.exclusive_until(), Some(sent + settings.rebalance_timeout));
    // A short session ends before any rebalance does.
    let short = Settings::default().with_session_timeout(ms(2_000));
    let mut member = Member::stable(short);
    member.tick_after(ms(200));
    member.reply(Reply::Heartbeat { code: code::NONE });
    assert_eq!(member.machine.exclusive_until(), Some(member.now + ms(2_000)));
}

#[test]
fn leaves_at_once() {
    let leave = Command::Send(Request::Leave { member_id: "m-1".into(), instance_id: None });
    let mut m = Member::stable(Settings::default());
    assert_eq!(m.on(Event::Leave), std::slice::from_ref(&leave));
    assert_eq!(m.on(Event::Leave), [], "once");
    assert_eq!(m.reply(Reply::Leave { code: code::UNKNOWN_MEMBER_ID }), [Command::Gone]);
    let mut m = Member::stable(Settings::default());
    m.on(Event::Leave);
    assert_eq!(m.on(Event::Disconnected), [Command::Gone]);
    let mut m = Member::stable(Settings::default());
    m.heartbeat();
    assert_eq!(m.on(Event::Leave), [], "after the answer that is awaited");
    assert_eq!(m.reply(Reply::Heartbeat { code: code::REBALANCE_IN_PROGRESS }), std::slice::from_ref(&leave));
    let mut m = Member::stable(Settings::default());
    m.on(Event::Disconnected);
    assert_eq!(m.on(Event::Leave), [find()]);
    assert_eq!(m.found(), [leave]);
}

#[test]
fn leaves_without_a_membership_or_an_answer() {
    assert_eq!(Member::new().on(Event::Leave), [Command::Gone]);
    let mut m = Member::new();
    m.on(Event::Tick);
    m.found();
    assert_eq!(m.on(Event::Leave), []);
    let goodbye = Command::Send(Request::Leave { member_id: "m-9".into(), instance_id: None });
    assert_eq!(m.reply(join_reply(code::MEMBER_ID_REQUIRED, -1, "m-9", false)), [goodbye]);
    assert_eq!(m.tick_after(ms(7_999)), []);
    assert_eq!(m.tick_after(ms(1)), [Command::Gone], "no longer than a rebalance takes");
}

#[test]
fn replies_to_nothing_are_passed_over() {
    let mut m = Member::stable(Settings::default());
    assert_eq!(m.reply(Reply::Heartbeat { code: code::FENCED_INSTANCE_ID }), []);
    assert_eq!(m.synced(), []);
    m.heartbeat();
    assert_eq!(m.synced(), [], "a heartbeat is awaited");
    assert_eq!(m.machine.state(), State::Stable);
}

fn any_code() -> impl Strategy<Value = i16> {
    prop_oneof![
        6 => Just(code::NONE),
        2 => Just(code::REBALANCE_IN_PROGRESS),
        6 => prop::sample::select(vec![-1, 7, 14, 15, 16, 22, 25, 79]),
        1 => prop::sample::select(vec![23, 26, 82]),
    ]
}

fn any_event() -> impl Strategy<Value = Event> {
    let id = || prop::sample::select(vec!["", "a", "b"]);
    prop_oneof![
        6 => Just(Event::Tick),
        2 => any_code().prop_map(|code| Event::Reply(Reply::Coordinator { code })),
        2 => (any_code(), -1i32..9, id(), any::<bool>(), any::<bool>()).prop_map(|(code, generation, id, leader, skip)| {
            let Reply::Join { members, .. } = join_reply(code, generation, id, leader) else { unreachable!() };
            let member_id = id.into();
            Event::Reply(Reply::Join { code, generation, member_id, leader, skip_assignment: skip, members })
        }),
        2 => any_code().prop_map(|code| Event::Reply(Reply::Sync { code, assignment: vec![] })),
        2 => any_code().prop_map(|code| Event::Reply(Reply::Heartbeat { code })),
        1 => any_code().prop_map(|code| Event::Reply(Reply::Leave { code })),
        1 => Just(Event::Disconnected),
        2 => Just(Event::Assigned(vec![])),
        2 => Just(Event::Committed),
        1 => Just(Event::Metadata(vec![1])),
    ]
}

/// Mostly an answer that fits to what was asked last, so that the walk gets somewhere.
fn fitting(asked: Option<&Request>, code: i16) -> Event {
    match asked {
        Some(Request::FindCoordinator) => Event::Reply(Reply::Coordinator { code }),
        Some(Request::Join { .. }) => Event::Reply(join_reply(code, 5, "m-1", code % 2 == 0)),
        Some(Request::Sync { .. }) => Event::Reply(Reply::Sync { code, assignment: vec![] }),
        Some(Request::Heartbeat { .. }) => Event::Reply(Reply::Heartbeat { code }),
        Some(Request::Leave { .. }) => Event::Reply(Reply::Leave { code }),
        None => Event::Tick,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn random_events_never_leave_the_table(
        steps in prop::collection::vec(
            (0u64..3_000, prop_oneof![9 => Just(0u64), 1 => Just(50_000)], any_event(), any_code(), any::<bool>()),
            0..120,
        ),
        leave_at in 0usize..200,
    ) {
        let mut member = Member::new();
        let mut in_flight: Option<Request> = None;
        let (mut held, mut ended) = (false, false);
        for (step, (time, long, event, code, fit)) in steps.into_iter().enumerate() {
            member.now += ms(time + long);
            let event = match step == leave_at {
                true => Event::Leave,
                false if fit => fitting(in_flight.as_ref(), code),
                false => event,
            };
            let answers = matches!(
                (&event, &in_flight),
                (Event::Disconnected, _)
                    | (Event::Reply(Reply::Coordinator { .. }), Some(Request::FindCoordinator))
                    | (Event::Reply(Reply::Join { .. }), Some(Request::Join { .. }))
                    | (Event::Reply(Reply::Sync { .. }), Some(Request::Sync { .. }))
                    | (Event::Reply(Reply::Heartbeat { .. }), Some(Request::Heartbeat { .. }))
                    | (Event::Reply(Reply::Leave { .. }), Some(Request::Leave { .. }))
            );
            if answers {
                in_flight = None;
            }
            for command in member.on(event) {
                prop_assert!(!ended, "a command after Gone: {command:?}");
                match command {
                    Command::Send(request) => {
                        prop_assert!(in_flight.is_none(), "{request:?} beside {in_flight:?}");
                        if let Request::Heartbeat { generation, .. } = request {
                            prop_assert!(generation >= 0, "a heartbeat without a membership");
                        }
                        in_flight = Some(request);
                    }
                    Command::NewGeneration { .. } => held = true,
                    Command::Lost(why) => held = held && why.is_final(),
                    Command::Prepare { deadline } => {
                        prop_assert!(held, "nothing to commit");
                        prop_assert_eq!(deadline, member.now + ms(4_000));
                    }
                    Command::Assign(_) => {}
                    Command::Gone => ended = true,
                }
            }
            // `Machine` asserts each move; here: where it stands, and that it is woken.
            let state = member.machine.state();
            prop_assert_eq!(ended, state == State::Gone);
            prop_assert!(state != State::Lost, "passed through");
            let deadline = member.machine.deadline();
            if !ended {
                prop_assert!(deadline > member.now && deadline <= member.now + ms(1_000), "{deadline:?} at {:?}", member.now);
            }
        }
    }

    #[test]
    fn undisturbed_members_become_stable(leader in any::<bool>(), disturbances in prop::collection::vec(any_event(), 0..30)) {
        let mut member = Member::new();
        for event in disturbances {
            member.now += ms(50);
            member.on(event);
        }
        if member.machine.state() == State::Gone {
            return Ok(());
        }
        // A connection that was reset, then answers that are all well.
        let mut commands = member.on(Event::Disconnected);
        for _ in 0..20 {
            let event = match commands.iter().rev().find(|c| !matches!(c, Command::NewGeneration { .. } | Command::Lost(_))) {
                Some(Command::Send(Request::Join { .. })) => Event::Reply(join_reply(code::NONE, 5, "m-1", leader)),
                Some(Command::Send(request)) => fitting(Some(request), code::NONE),
                Some(Command::Assign(_)) => Event::Assigned(vec![]),
                Some(Command::Prepare { .. }) => Event::Committed,
                _ => {
                    member.now = member.machine.deadline();
                    Event::Tick
                }
            };
            commands = member.on(event);
        }
        prop_assert_eq!(member.machine.state(), State::Stable);
    }
}
