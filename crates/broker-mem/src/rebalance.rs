//! The classic group protocol, as the coordinator of Kafka 4.4 runs it.

use std::sync::Arc;
use std::time::Duration;

use millpond_broker_api::membership::{MemberInfo, Reply, Request, code};

use crate::groups::{Context, Group, GroupMember, Phase};
use crate::link::Ticket;

/// Error code -1, the answer to an assignment that is too large.
const UNKNOWN_SERVER_ERROR: i16 = -1;

/// All subscriptions and assignments of a group are one record of `__consumer_offsets`, of at most this size.
const MAX_GROUP_BYTES: usize = 1_048_588;

/// A deadline that is set anew lies in the future, whatever members ask for.
const SHORTEST_REBALANCE: Duration = Duration::from_millis(1);

/// A join, taken apart.
pub(crate) struct Join<'r> {
    pub(crate) member_id: &'r Arc<str>,
    pub(crate) instance_id: &'r Option<Arc<str>>,
    pub(crate) session_timeout: Duration,
    pub(crate) rebalance_timeout: Duration,
    pub(crate) protocol: &'r Arc<str>,
    pub(crate) metadata: &'r [u8],
}

impl Group {
    /// Handles a member's request; the answer may come later.
    pub(crate) fn handle(&mut self, cx: &mut Context<'_>, ticket: Ticket, request: &Request) {
        match request {
            Request::FindCoordinator => cx.answer(ticket, Reply::Coordinator { code: code::NONE }),
            Request::Join { member_id, instance_id, session_timeout, rebalance_timeout, protocol, metadata } => {
                let (session_timeout, rebalance_timeout) = (*session_timeout, *rebalance_timeout);
                self.join(
                    cx,
                    ticket,
                    &Join { member_id, instance_id, session_timeout, rebalance_timeout, protocol, metadata },
                );
            }
            Request::Sync { generation, member_id, instance_id, assignments } => {
                self.sync(cx, ticket, *generation, (member_id, instance_id.as_deref()), assignments);
            }
            Request::Heartbeat { generation, member_id, instance_id } => {
                let code = self.heartbeat(cx.now, *generation, member_id, instance_id.as_deref());
                cx.answer(ticket, Reply::Heartbeat { code });
            }
            Request::Leave { member_id, instance_id } => {
                let code = self.leave(cx, member_id, instance_id.as_deref());
                cx.answer(ticket, Reply::Leave { code });
            }
        }
    }

    fn join(&mut self, cx: &mut Context<'_>, ticket: Ticket, join: &Join<'_>) {
        let allowed = cx.options.min_session_timeout..=cx.options.max_session_timeout;
        let others = !self.members.is_empty();
        if !allowed.contains(&join.session_timeout) {
            cx.refuse_join(ticket, code::INVALID_SESSION_TIMEOUT, join.member_id);
        } else if others && self.protocol.as_ref() != Some(join.protocol) {
            cx.refuse_join(ticket, code::INCONSISTENT_GROUP_PROTOCOL, join.member_id);
        } else if join.member_id.is_empty() {
            self.join_new(cx, ticket, join);
        } else if let Some(at) = self.pending.iter().position(|(id, _)| id == join.member_id) {
            self.pending.remove(at);
            self.add(cx, ticket, join, join.member_id.clone());
        } else {
            match self.member(join.member_id, join.instance_id.as_deref()) {
                Ok(_) => self.join_again(cx, ticket, join),
                Err(refused) => cx.refuse_join(ticket, refused, join.member_id),
            }
        }
    }

    /// A first join: the id is given now, used at once by a static member, and by others with their next join.
    fn join_new(&mut self, cx: &mut Context<'_>, ticket: Ticket, join: &Join<'_>) {
        let id = cx.member_id();
        let Some(instance_id) = join.instance_id else {
            self.pending.push((id.clone(), cx.now.saturating_add(join.session_timeout)));
            return cx.refuse_join(ticket, code::MEMBER_ID_REQUIRED, &id);
        };
        match self.members.iter_mut().find(|m| m.instance_id.as_ref() == Some(instance_id)) {
            Some(former) => {
                let was = std::mem::replace(&mut former.id, id.clone());
                cx.evict(former, &was, code::FENCED_INSTANCE_ID);
                if self.leader.as_ref() == Some(&was) {
                    self.leader = Some(id.clone());
                }
                self.return_of(cx, ticket, join, &id);
            }
            None => self.add(cx, ticket, join, id),
        }
    }

    /// A static member takes its place again, under a new id.
    fn return_of(&mut self, cx: &mut Context<'_>, ticket: Ticket, join: &Join<'_>, id: &Arc<str>) {
        self.update(cx, None, join, id);
        if self.phase == Phase::Stable {
            // Nobody else notices, whatever the subscription says now.
            return self.answer_join(cx, ticket, id, true);
        }
        self.update(cx, Some(ticket), join, id);
        match self.phase {
            // The assignment that the leader is making is for the former id.
            Phase::Completing { .. } => self.prepare(cx),
            _ => self.try_complete(cx),
        }
    }

    fn add(&mut self, cx: &mut Context<'_>, ticket: Ticket, join: &Join<'_>, id: Arc<str>) {
        self.members.push(GroupMember {
            id: id.clone(),
            instance_id: join.instance_id.clone(),
            session_timeout: join.session_timeout,
            rebalance_timeout: join.rebalance_timeout,
            metadata: Vec::new(),
            assignment: Vec::new(),
            expires: Duration::MAX,
            joining: None,
            syncing: None,
            synced: false,
        });
        self.protocol = Some(join.protocol.clone());
        self.leader.get_or_insert_with(|| id.clone());
        self.update(cx, Some(ticket), join, &id);
        match self.phase {
            Phase::Preparing { .. } => self.try_complete(cx),
            _ => self.prepare(cx),
        }
    }

    /// A member that is known joins again.
    fn join_again(&mut self, cx: &mut Context<'_>, ticket: Ticket, join: &Join<'_>) {
        let id = join.member_id;
        let same = self.members.iter().any(|m| m.id == *id && m.metadata == join.metadata);
        let leads = self.leader.as_ref() == Some(id);
        match self.phase {
            // What the leader does again is always news, what a follower does only with another subscription.
            Phase::Stable if same && !leads => {
                self.update(cx, None, join, id);
                self.answer_join(cx, ticket, id, false);
            }
            // Its answer was lost.
            Phase::Completing { .. } if same => {
                self.update(cx, None, join, id);
                self.answer_join(cx, ticket, id, false);
            }
            Phase::Preparing { .. } => {
                self.update(cx, Some(ticket), join, id);
                self.try_complete(cx);
            }
            _ => {
                self.update(cx, Some(ticket), join, id);
                self.prepare(cx);
            }
        }
    }

    fn update(&mut self, cx: &Context<'_>, joining: Option<Ticket>, join: &Join<'_>, id: &Arc<str>) {
        if let Some(member) = self.members.iter_mut().find(|m| m.id == *id) {
            member.metadata = join.metadata.to_vec();
            member.session_timeout = join.session_timeout;
            member.rebalance_timeout = join.rebalance_timeout;
            member.joining = joining;
            member.renew(cx.now);
        }
    }

    /// How long the group waits for its members: the longest that one of them asks for.
    fn rebalance_timeout(&self) -> Duration {
        self.members.iter().map(|m| m.rebalance_timeout).max().unwrap_or_default().max(SHORTEST_REBALANCE)
    }

    /// Begins a rebalance.
    fn prepare(&mut self, cx: &mut Context<'_>) {
        if let Phase::Completing { .. } = self.phase {
            self.answer_syncs(cx, code::REBALANCE_IN_PROGRESS);
        }
        let initial = self.phase == Phase::Empty;
        let wait = if initial { cx.options.initial_rebalance_delay } else { self.rebalance_timeout() };
        self.phase = Phase::Preparing { until: cx.now.saturating_add(wait), initial };
        if initial && wait.is_zero() { self.complete(cx) } else { self.try_complete(cx) }
    }

    /// Begins the next generation as soon as all have joined.
    fn try_complete(&mut self, cx: &mut Context<'_>) {
        let all = self.pending.is_empty() && self.members.iter().all(|m| m.joining.is_some());
        if all && matches!(self.phase, Phase::Preparing { initial: false, .. }) {
            self.complete(cx);
        }
    }

    /// Begins the next generation with those that have joined.
    fn complete(&mut self, cx: &mut Context<'_>) {
        // A static member may be restarting: it stays until its session is over.
        self.members.retain(|m| m.joining.is_some() || m.instance_id.is_some());
        let until = cx.now.saturating_add(self.rebalance_timeout());
        let first = self.members.iter().find(|m| m.joining.is_some()).map(|m| m.id.clone());
        if first.is_none() && !self.members.is_empty() {
            self.phase = Phase::Preparing { until, initial: false };
            return;
        }
        self.generation += 1;
        let leader_joined = |m: &GroupMember| self.leader.as_ref() == Some(&m.id) && m.joining.is_some();
        if !self.members.iter().any(leader_joined) {
            self.leader = first;
        }
        if self.members.is_empty() {
            self.phase = Phase::Empty;
            return;
        }
        self.phase = Phase::Completing { until };
        let joined: Vec<_> = self.members.iter_mut().filter_map(|m| Some((m.joining.take()?, m.id.clone()))).collect();
        for member in &mut self.members {
            member.synced = false;
            member.assignment.clear();
        }
        for (ticket, id) in joined {
            if let Some(member) = self.members.iter_mut().find(|m| m.id == id) {
                member.renew(cx.now);
            }
            self.answer_join(cx, ticket, &id, false);
        }
    }

    fn answer_join(&self, cx: &mut Context<'_>, ticket: Ticket, id: &Arc<str>, static_return: bool) {
        let leader = self.leader.as_ref() == Some(id);
        let info = |m: &GroupMember| MemberInfo {
            member_id: m.id.clone(),
            instance_id: m.instance_id.clone(),
            metadata: m.metadata.clone(),
        };
        let completing = matches!(self.phase, Phase::Completing { .. });
        let members =
            if leader && (completing || static_return) { self.members.iter().map(info).collect() } else { Vec::new() };
        cx.answer(
            ticket,
            Reply::Join {
                code: code::NONE,
                generation: self.generation,
                member_id: id.clone(),
                leader,
                skip_assignment: leader && static_return,
                members,
            },
        );
    }

    fn sync(
        &mut self,
        cx: &mut Context<'_>,
        ticket: Ticket,
        generation: i32,
        (id, instance_id): (&Arc<str>, Option<&str>),
        assignments: &[(Arc<str>, Vec<u8>)],
    ) {
        let (current, phase, now) = (self.generation, self.phase, cx.now);
        let refuse = |cx: &mut Context<'_>, code| cx.answer(ticket, Reply::Sync { code, assignment: Vec::new() });
        let member = match self.member(id, instance_id) {
            Ok(member) => member,
            Err(refused) => return refuse(cx, refused),
        };
        if generation != current {
            return refuse(cx, code::ILLEGAL_GENERATION);
        }
        match phase {
            Phase::Empty => refuse(cx, code::UNKNOWN_MEMBER_ID),
            Phase::Preparing { .. } => refuse(cx, code::REBALANCE_IN_PROGRESS),
            Phase::Stable => {
                member.renew(now);
                cx.answer(ticket, Reply::Sync { code: code::NONE, assignment: member.assignment.clone() });
            }
            Phase::Completing { .. } => {
                (member.syncing, member.synced) = (Some(ticket), true);
                if self.leader.as_ref() == Some(id) {
                    self.assign(cx, assignments);
                }
            }
        }
    }

    /// The leader has spoken.
    fn assign(&mut self, cx: &mut Context<'_>, assignments: &[(Arc<str>, Vec<u8>)]) {
        let assigned: usize = assignments.iter().map(|(id, bytes)| id.len() + bytes.len()).sum();
        let subscribed: usize = self.members.iter().map(|m| m.id.len() + m.metadata.len()).sum();
        if assigned + subscribed > MAX_GROUP_BYTES {
            self.answer_syncs(cx, UNKNOWN_SERVER_ERROR);
            return self.prepare(cx);
        }
        for member in &mut self.members {
            let own = assignments.iter().find(|(id, _)| *id == member.id);
            member.assignment = own.map(|(_, bytes)| bytes.clone()).unwrap_or_default();
        }
        self.phase = Phase::Stable;
        self.answer_syncs(cx, code::NONE);
    }

    /// Answers all syncs that wait.
    fn answer_syncs(&mut self, cx: &mut Context<'_>, code: i16) {
        for member in &mut self.members {
            if let Some(ticket) = member.syncing.take() {
                let assignment = if code == code::NONE { member.assignment.clone() } else { Vec::new() };
                member.renew(cx.now);
                cx.answer(ticket, Reply::Sync { code, assignment });
            }
        }
    }

    fn heartbeat(&mut self, now: Duration, generation: i32, id: &str, instance_id: Option<&str>) -> i16 {
        let (current, phase) = (self.generation, self.phase);
        match self.member(id, instance_id) {
            Err(refused) => refused,
            Ok(_) if generation != current => code::ILLEGAL_GENERATION,
            Ok(member) => {
                member.renew(now);
                match phase {
                    Phase::Preparing { .. } => code::REBALANCE_IN_PROGRESS,
                    Phase::Empty => code::UNKNOWN_MEMBER_ID,
                    Phase::Completing { .. } | Phase::Stable => code::NONE,
                }
            }
        }
    }

    fn leave(&mut self, cx: &mut Context<'_>, id: &Arc<str>, instance_id: Option<&str>) -> i16 {
        if let Some(at) = self.pending.iter().position(|(pending, _)| pending == id) {
            self.pending.remove(at);
            self.try_complete(cx);
            return code::NONE;
        }
        // A static member may be removed by its static id alone.
        let is_named =
            |m: &&GroupMember| id.is_empty() && instance_id.is_some() && m.instance_id.as_deref() == instance_id;
        let named = self.members.iter().find(is_named).map(|m| m.id.clone());
        let id = named.as_ref().unwrap_or(id);
        match self.member(id, instance_id) {
            Err(refused) => refused,
            Ok(_) => {
                self.remove(cx, &id.clone());
                self.after_removal(cx);
                code::NONE
            }
        }
    }

    fn remove(&mut self, cx: &mut Context<'_>, id: &Arc<str>) {
        let Some(at) = self.members.iter().position(|m| m.id == *id) else { return };
        let mut gone = self.members.remove(at);
        cx.evict(&mut gone, id, code::UNKNOWN_MEMBER_ID);
        if self.leader.as_ref() == Some(id) {
            self.leader = self.members.first().map(|m| m.id.clone());
        }
    }

    fn after_removal(&mut self, cx: &mut Context<'_>) {
        match self.phase {
            Phase::Stable | Phase::Completing { .. } => self.prepare(cx),
            Phase::Preparing { .. } => self.try_complete(cx),
            Phase::Empty => {}
        }
    }

    /// Does what fell due.
    pub(crate) fn happen(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        self.pending.retain(|(_, until)| *until > now);
        let over = |m: &&GroupMember| m.can_expire() && m.expires <= now;
        let expired: Vec<_> = self.members.iter().filter(over).map(|m| m.id.clone()).collect();
        for id in &expired {
            self.remove(cx, id);
        }
        if expired.is_empty() {
            self.try_complete(cx)
        } else {
            self.after_removal(cx)
        }
        match self.phase {
            Phase::Preparing { until, .. } if until <= now => self.complete(cx),
            Phase::Completing { until } if until <= now => {
                let missing: Vec<_> = self.members.iter().filter(|m| !m.synced).map(|m| m.id.clone()).collect();
                for id in &missing {
                    self.remove(cx, id);
                }
                self.prepare(cx);
            }
            _ => {}
        }
    }
}

impl Context<'_> {
    fn answer(&mut self, ticket: Ticket, reply: Reply) {
        self.out.push((ticket, reply));
    }

    fn refuse_join(&mut self, ticket: Ticket, code: i16, id: &Arc<str>) {
        let (generation, leader, skip_assignment, members) = (-1, false, false, Vec::new());
        self.answer(ticket, Reply::Join { code, generation, member_id: id.clone(), leader, skip_assignment, members });
    }

    /// Answers what a member that lost its place was waiting for.
    fn evict(&mut self, member: &mut GroupMember, id: &Arc<str>, code: i16) {
        if let Some(ticket) = member.joining.take() {
            self.refuse_join(ticket, code, id);
        }
        if let Some(ticket) = member.syncing.take() {
            self.answer(ticket, Reply::Sync { code, assignment: Vec::new() });
        }
    }

    fn member_id(&mut self) -> Arc<str> {
        *self.ids += 1;
        format!("member-{}", self.ids).into()
    }
}
