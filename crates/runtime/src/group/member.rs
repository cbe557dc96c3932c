//! Drives the membership machine of an instance, over whatever link its broker gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::task::Waker;
use std::time::Duration;

use millpond_broker_api::Member;
use millpond_broker_api::membership::{
    Command, Event, Incoming, Link, Machine, MemberInfo, Reply, Request, Settings as MemberSettings, State, Why, code,
    protocol,
};

use super::distribute::distribute;
use super::seat::{Seat, WorkerHandle};
use crate::assign::{ClusterView, MemberView, Subscription, TaskAssignment, assign};
use crate::error::{Error, ErrorKind, Result};
use crate::instance::Shared;
use crate::task::TaskId;
use crate::worker::{ToMember, ToWorker};

/// The protocol's name: it stands for the user data's format and the assignor.
const PROTOCOL: &str = "millpond-1";

/// A coordinator that cannot be found for so long is news.
const DISCONNECTED_AFTER: Duration = Duration::from_secs(1);

/// The member of an instance.
pub(crate) struct GroupMember {
    shared: Arc<Shared>,
    machine: Machine,
    link: Box<dyn Link>,
    inbox: Receiver<ToMember>,
    workers: Vec<Seat>,
    commands: Vec<Command>,
    assigned: BTreeSet<TaskId>,
    generation: Option<Member>,
    /// The last generation that this member had an assignment of; kept when a membership is lost.
    last_generation: Option<i32>,
    stopping: bool,
    /// The coordinator has taken its leave.
    left: bool,
    gone: bool,
    failed: Option<Error>,
    /// Since when the group's coordinator is looked for.
    finding_since: Option<Duration>,
}

impl GroupMember {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        link: Box<dyn Link>,
        inbox: Receiver<ToMember>,
        workers: Vec<WorkerHandle>,
    ) -> Self {
        let settings = &shared.settings;
        let member_settings = MemberSettings {
            instance_id: shared.instance_id.clone(),
            protocol: PROTOCOL.into(),
            session_timeout: settings.session_timeout,
            heartbeat_interval: settings.effective_heartbeat_interval(),
            rebalance_timeout: settings.rebalance_timeout,
            prepare_time: settings.rebalance_timeout / 2,
            ..MemberSettings::default()
        };
        let mut member = Self {
            shared: Arc::clone(shared),
            machine: Machine::new(member_settings, Vec::new()),
            link,
            inbox,
            workers: workers.into_iter().map(Seat::new).collect(),
            commands: Vec::new(),
            assigned: BTreeSet::new(),
            generation: None,
            last_generation: None,
            stopping: false,
            left: false,
            gone: false,
            failed: None,
            finding_since: None,
        };
        member.tell_metadata();
        member
    }

    /// Whether the member has left, or was told that it may not be one.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone
    }

    pub(crate) fn is_stable(&self) -> bool {
        self.machine.state() == State::Stable
    }

    pub(crate) fn waker(&self) -> Waker {
        self.link.waker()
    }

    /// One step: messages of the workers, what came in, and the clock. Waits up to `max_wait` for something to come in.
    pub(crate) fn step(&mut self, max_wait: Duration) -> Result<bool> {
        if self.gone {
            return Ok(false);
        }
        let mut busy = self.hear_workers()?;
        self.watch_workers()?;
        self.watch_time()?;
        let now = self.shared.ports.clock.now();
        let wait = if busy { Duration::ZERO } else { self.machine.deadline().saturating_sub(now).min(max_wait) };
        let wait = wait.min(self.shared.closing.left());
        while let Some(incoming) = self.link.receive(if busy { Duration::ZERO } else { wait }) {
            busy = true;
            self.left |= matches!(incoming, Incoming::Reply(Reply::Leave { code: code::NONE }));
            self.handle(match incoming {
                Incoming::Reply(reply) => Event::Reply(reply),
                Incoming::Disconnected => Event::Disconnected,
            })?;
        }
        self.handle(Event::Tick)?;
        self.shared.set_exclusive(self.machine.exclusive_until());
        self.tell_connection();
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(busy),
        }
    }

    /// Whether the coordinator can be reached: for those who ask for the application's state.
    fn tell_connection(&mut self) {
        let now = self.shared.ports.clock.now();
        self.finding_since = (self.machine.state() == State::Finding).then(|| self.finding_since.unwrap_or(now));
        let lost = self.finding_since.is_some_and(|since| now.saturating_sub(since) >= DISCONNECTED_AFTER);
        if self.shared.disconnected.swap(lost, Ordering::Relaxed) != lost {
            let (broker, code) = (self.shared.broker.name(), self.machine.last_error());
            match lost {
                true => tracing::warn!(broker, ?code, "the group's coordinator does not answer; it is looked for"),
                false => tracing::warn!(broker, "the group's coordinator answers again"),
            }
        }
    }

    /// The member has failed: its workers stop.
    pub(crate) fn stop_workers(&mut self) {
        self.workers.iter().for_each(|w| w.handle.tell(ToWorker::Stop));
    }

    fn handle(&mut self, event: Event) -> Result {
        self.feed(event);
        self.run_commands()
    }

    fn feed(&mut self, event: Event) {
        self.machine.handle(self.shared.ports.clock.now(), event, &mut self.commands);
    }

    fn run_commands(&mut self) -> Result {
        // A command may lead to an event that leads to more commands.
        while !self.commands.is_empty() {
            for command in std::mem::take(&mut self.commands) {
                self.execute(command)?;
            }
        }
        Ok(())
    }

    fn execute(&mut self, command: Command) -> Result {
        match command {
            Command::Send(request) => {
                if matches!(request, Request::Join { .. }) {
                    // The join goes ahead without those that have not committed by now (D6).
                    self.workers.iter_mut().filter(|w| !w.committed).for_each(Seat::give_away);
                }
                self.link.send(&request);
            }
            Command::Assign(members) => {
                let assignments = self.lead(members);
                self.feed(Event::Assigned(assignments));
            }
            Command::Prepare { .. } => self.prepare(),
            Command::NewGeneration { generation, member_id, assignment, is_leader } => {
                tracing::info!(generation, is_leader, "a new generation");
                self.new_generation(generation, member_id, &assignment)?;
            }
            Command::Lost(why) => self.lost(why),
            Command::Gone => {
                self.gone = true;
                if self.generation.is_some() && !self.left {
                    self.shared.closing.fall_short();
                }
                if self.failed.is_none() && !self.stopping {
                    self.failed =
                        Some(Error::new(ErrorKind::Fatal, "stay in the group").with("group", &self.shared.group));
                }
            }
        }
        Ok(())
    }

    fn subscription(&self) -> Vec<u8> {
        let blocked = self.workers.iter().filter(|w| w.stuck).flat_map(|w| &w.may_hold);
        let held: BTreeSet<TaskId> = self.assigned.iter().copied().chain(self.shared.local_tasks()).collect();
        let able = self.workers.iter().filter(|w| !w.stuck).count();
        let mine = Subscription {
            process: self.shared.process_id,
            workers: able as u32,
            held,
            blocked: blocked.copied().collect(),
        };
        let topics = self.shared.plan.input_topics().into_iter().map(str::to_owned).collect();
        protocol::Subscription { topics, user_data: mine.encode(), ..protocol::Subscription::default() }.encode()
    }

    /// What the next join says. In a stable membership that asks for a rebalance.
    fn tell_metadata(&mut self) {
        let subscription = self.subscription();
        self.feed(Event::Metadata(subscription));
    }

    /// The leader's part: the assignment of all members.
    fn lead(&self, members: Vec<MemberInfo>) -> Vec<(Arc<str>, Vec<u8>)> {
        let mut view = ClusterView {
            tasks: self.shared.plan.tasks(),
            stateful: self.shared.plan.stateful_tasks(),
            members: Vec::new(),
        };
        for MemberInfo { member_id, metadata, .. } in members {
            match read_subscription(&metadata) {
                Ok(subscription) => view.members.push(MemberView { member_id, subscription }),
                // One member that cannot be understood must not stop the others. It gets nothing.
                Err(e) => tracing::error!(member = %member_id, "leaves a member out: {}", e.chain()),
            }
        }
        let assigned = assign(&view);
        let encode = |(member, tasks): (Arc<str>, Vec<TaskId>)| {
            let active: BTreeSet<TaskId> = tasks.into_iter().collect();
            let partitions = self.partitions(&active);
            let user_data = TaskAssignment { active }.encode();
            (member, protocol::Assignment { partitions, user_data }.encode())
        };
        assigned.into_iter().map(encode).collect()
    }

    /// The input partitions of tasks, so that stock tools show who reads what.
    fn partitions(&self, tasks: &BTreeSet<TaskId>) -> Vec<(String, Vec<i32>)> {
        let mut partitions: BTreeMap<&str, BTreeSet<i32>> = BTreeMap::new();
        for task in tasks {
            let inputs = self.shared.plan.sub(*task).map(|s| s.inputs.as_slice()).unwrap_or_default();
            for input in inputs.iter().filter(|i| task.partition < i.partitions) {
                partitions.entry(&input.topic).or_default().insert(task.partition);
            }
        }
        partitions.into_iter().map(|(topic, p)| (topic.to_owned(), p.into_iter().collect())).collect()
    }

    /// A rebalance was announced: every worker commits first.
    fn prepare(&mut self) {
        for worker in &mut self.workers {
            worker.committed = worker.stuck || worker.stopped;
            if !worker.committed {
                worker.handle.tell(ToWorker::Prepare);
            }
        }
        self.tell_metadata();
        self.check_committed();
    }

    fn check_committed(&mut self) {
        if self.machine.state() == State::Preparing && self.workers.iter().all(|w| w.committed) {
            self.feed(Event::Committed);
        }
    }

    fn new_generation(&mut self, generation: i32, member_id: Arc<str>, assignment: &[u8]) -> Result {
        let envelope = protocol::Assignment::decode(assignment).map_err(|e| Error::broker("read an assignment", e))?;
        self.assigned = match envelope.user_data.as_slice() {
            [] => BTreeSet::new(),
            bytes => TaskAssignment::decode(bytes)?.active,
        };
        if self.last_generation.is_some_and(|last| generation > last + 1) {
            // In a generation that this member never heard of others may have had its tasks, and committed for them.
            tracing::warn!(
                generation,
                last = self.last_generation,
                "skipped a generation: its tasks are taken over anew"
            );
            for worker in &mut self.workers {
                worker.tasks.clear();
                worker.handle.tell(ToWorker::Lost);
            }
        }
        self.last_generation = Some(generation);
        self.generation = Some(Member {
            group: Arc::clone(&self.shared.group),
            member_id,
            instance_id: self.shared.instance_id.clone(),
            generation,
        });
        self.shared.set_exclusive(self.machine.exclusive_until());
        self.hand_out();
        Ok(())
    }

    /// Tells every worker its tasks of the present generation.
    fn hand_out(&mut self) {
        let Some(member) = self.generation.clone() else { return };
        let held: Vec<_> = self.workers.iter().map(|w| (!w.stuck && !w.stopped).then(|| w.tasks.clone())).collect();
        let blocked: BTreeSet<TaskId> =
            self.workers.iter().filter(|w| w.stuck).flat_map(|w| w.may_hold.iter().copied()).collect();
        let runnable = self.assigned.difference(&blocked).copied().collect();
        for (worker, tasks) in self.workers.iter_mut().zip(distribute(&runnable, &held)) {
            worker.tasks.clone_from(&tasks);
            worker.may_hold.extend(&tasks);
            worker.handle.tell(ToWorker::Assign { member: member.clone(), tasks });
        }
    }

    fn lost(&mut self, why: Why) {
        self.shared.set_exclusive(None);
        tracing::warn!(?why, "lost the membership; {}", why.remedy());
        self.generation = None;
        self.assigned.clear();
        for worker in &mut self.workers {
            worker.tasks.clear();
            worker.handle.tell(ToWorker::Lost);
        }
        if why.is_final() {
            let error = Error::new(ErrorKind::Fatal, "stay in the group").with("group", &self.shared.group);
            let code = if let Why::Refused { code } = why { code } else { 0 };
            self.failed = Some(error.with("error code", code).with("reason", format!("{why:?}")).remedy(why.remedy()));
        } else {
            self.tell_metadata();
        }
    }

    fn hear_workers(&mut self) -> Result<bool> {
        let mut busy = false;
        while let Ok(message) = self.inbox.try_recv() {
            busy = true;
            match message {
                ToMember::Committed { worker } => {
                    if let Some(seat) = self.workers.get_mut(worker) {
                        seat.committed = true;
                    }
                    self.check_committed();
                }
                ToMember::Acknowledged { worker, generation } => self.acknowledged(worker, generation),
                ToMember::MembershipLost { worker, generation } => self.refused(worker, generation),
                ToMember::Stopped { worker } => {
                    if let Some(seat) = self.workers.get_mut(worker) {
                        (seat.stopped, seat.committed) = (true, true);
                    }
                    self.check_committed();
                    self.leave_if_stopped();
                }
                ToMember::Stop => {
                    self.stopping = true;
                    self.workers.iter().for_each(|w| w.handle.tell(ToWorker::Stop));
                    // A worker that failed has stopped before it asks for this, and says so no second time.
                    self.leave_if_stopped();
                }
            }
            self.run_commands()?;
        }
        Ok(busy)
    }

    fn leave_if_stopped(&mut self) {
        if self.stopping && self.workers.iter().all(|w| w.stopped) {
            self.feed(Event::Leave);
        }
    }

    /// An application that is being closed does not wait for ever: neither for a worker that makes no step, whose tasks are
    /// another's then, nor for a coordinator that does not answer.
    fn watch_time(&mut self) -> Result {
        if self.shared.closing.left().is_zero() {
            self.shared.closing.fall_short();
            self.gone = true;
        } else if self.shared.closing.is_late_for_work() && self.workers.iter().any(|w| !w.stopped) {
            self.shared.closing.fall_short();
            for worker in self.workers.iter_mut().filter(|w| !w.stopped) {
                worker.give_away();
                worker.stopped = true;
            }
            self.stopping = true;
            self.leave_if_stopped();
        }
        self.run_commands()
    }

    /// A worker has the tasks of a generation, and has given back all others.
    fn acknowledged(&mut self, worker: usize, generation: i32) {
        let present = self.generation.as_ref().is_some_and(|m| m.generation == generation);
        let Some(seat) = self.workers.get_mut(worker) else { return };
        if present {
            seat.may_hold.clone_from(&seat.tasks);
        }
        if std::mem::take(&mut seat.stuck) {
            tracing::info!(worker, "a stuck worker makes steps again");
            self.tell_metadata();
        }
    }

    /// The broker refused a worker's commit. If the generation is past, the new one is on its way to the worker, or has
    /// overtaken it. If it is the present one, the member joins again: the heartbeat need not hear the same, and the worker
    /// does nothing until it is told what is its own.
    fn refused(&mut self, worker: usize, generation: i32) {
        let Some(member) = &self.generation else { return };
        let Some(seat) = self.workers.get(worker) else { return };
        if member.generation > generation {
            seat.handle.tell(ToWorker::Assign { member: member.clone(), tasks: seat.tasks.clone() });
        } else if member.generation == generation {
            self.tell_metadata();
        }
    }

    /// A worker that has made no step for `max.poll.interval.ms` is stuck: the member joins anew without its tasks, which
    /// others can take over, since what it commits when it returns is refused.
    fn watch_workers(&mut self) -> Result {
        let now = self.shared.ports.clock.now();
        let limit = self.shared.settings.max_poll_interval;
        let mut news = false;
        for (number, worker) in self.workers.iter_mut().enumerate() {
            if !worker.stuck && !worker.stopped && worker.handle.pulse.age(now) > limit {
                tracing::error!(
                    worker = number,
                    "a worker is stuck: its tasks are given away; see `max.poll.interval.ms`"
                );
                worker.stuck = true;
                worker.give_away();
                news = true;
            }
        }
        if news {
            self.tell_metadata();
            self.check_committed();
        }
        self.run_commands()
    }
}

fn read_subscription(metadata: &[u8]) -> Result<Subscription> {
    let envelope = protocol::Subscription::decode(metadata);
    let envelope = envelope.map_err(|e| Error::broker("read a member's subscription", e))?;
    Subscription::decode(&envelope.user_data)
}

impl std::fmt::Debug for GroupMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GroupMember").field("state", &self.machine.state()).finish_non_exhaustive()
    }
}
