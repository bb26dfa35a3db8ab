//! Faults of class E as data: what may go wrong, at which call, and how often.
//!
//! Invariants
//! - A plan is data and its own state: equal plans over equal calls give equal faults (F1).
//! - [`Fault::applies`] is the table call x fault; a rate never injects outside it, a rule may not
//!   either.
//!
//! It injects nothing itself: [`super::Disk`] asks for each call and does what the answer says.

use super::errno::Errno;
use super::file::{Pages, mix};
use std::fmt;

macro_rules! ops {
    ($($variant:ident = $name:literal,)*) => {
        /// A call of the disk.
        #[allow(missing_docs)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum Op { $($variant,)* }

        impl Op {
            /// Every call.
            pub const ALL: &'static [Op] = &[$(Op::$variant,)*];

            /// Its name in logs and plans.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Op::$variant => $name,)* }
            }
        }
    };
}

ops! {
    Create = "create", Open = "open", Rename = "rename", Link = "link", Unlink = "unlink",
    Mkdir = "mkdir", List = "list", SyncDir = "sync_dir", Lock = "lock", Exists = "exists",
    Write = "write", Read = "read", Map = "map", SyncData = "sync_data", SyncAll = "sync_all",
    SetLen = "set_len", Preallocate = "preallocate", Len = "len",
}

impl Op {
    /// Whether it can change what a crash leaves.
    #[must_use]
    pub fn mutates(self) -> bool {
        !matches!(self, Op::Open | Op::List | Op::Exists | Op::Read | Op::Map | Op::Len | Op::Lock)
    }

    /// Whether it makes something durable.
    #[must_use]
    pub fn syncs(self) -> bool {
        matches!(self, Op::SyncDir | Op::SyncData | Op::SyncAll)
    }
}

/// What goes wrong with one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The error, and no effect. A sync of a file leaves its pages clean with the new bytes.
    Error(Errno),
    /// The error, though the whole effect landed (a sync's: durable).
    Landed(Errno),
    /// The error after the first half of a write.
    Half(Errno),
    /// A read or write of at most half of the bytes, at least one.
    Short,
    /// A failed sync of a file: what its pages hold afterwards, and whether every handle hears
    /// of it at its next sync, or only the one that called.
    Sync(Errno, Pages, Report),
    /// A failed sync of a directory after which a retry succeeds and makes nothing durable.
    DirLie(Errno),
    /// A sync that takes so many nanoseconds and scheduling rounds.
    Slow(u32),
    /// A sync of a file that says `Ok` and makes nothing durable. No fault of the model (and not in
    /// [`FAULTS`]): no engine survives it, and a rig that does not see it sees nothing.
    Lie,
}

/// Who hears of a failed sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The handle that called; every other sync succeeds and makes nothing of it durable.
    Caller,
    /// Each handle once.
    EachHandle,
}

/// Every fault with its name: the columns of the campaign's matrix.
pub const FAULTS: &[(&str, Fault)] = &[
    ("eio", Fault::Error(Errno::EIO)),
    ("enospc", Fault::Error(Errno::ENOSPC)),
    ("edquot", Fault::Error(Errno::EDQUOT)),
    ("erofs", Fault::Error(Errno::EROFS)),
    ("eintr", Fault::Error(Errno::EINTR)),
    ("emfile", Fault::Error(Errno::EMFILE)),
    ("enomem", Fault::Error(Errno::ENOMEM)),
    ("unsupported", Fault::Error(Errno::EOPNOTSUPP)),
    ("landed", Fault::Landed(Errno::EIO)),
    ("half", Fault::Half(Errno::ENOSPC)),
    ("short", Fault::Short),
    ("sync_new", Fault::Sync(Errno::EIO, Pages::New, Report::Caller)),
    ("sync_old", Fault::Sync(Errno::EIO, Pages::Old, Report::Caller)),
    ("sync_evicted", Fault::Sync(Errno::EIO, Pages::NewFor(8), Report::Caller)),
    ("sync_each", Fault::Sync(Errno::EIO, Pages::New, Report::EachHandle)),
    ("dir_lie", Fault::DirLie(Errno::EIO)),
    ("slow", Fault::Slow(3)),
];

impl Fault {
    /// The fault of that name in [`FAULTS`].
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        FAULTS.iter().find(|(n, _)| *n == name).map(|&(_, fault)| fault)
    }

    /// The name of its kind in [`FAULTS`]: parameters beyond the table's are told by the nearest.
    #[must_use]
    pub fn name(self) -> &'static str {
        let same_kind = |fault: Fault| match (fault, self) {
            (Fault::Sync(_, a, x), Fault::Sync(_, b, y)) => {
                std::mem::discriminant(&a) == std::mem::discriminant(&b)
                    && (x == y || a != Pages::New)
            }
            (Fault::Error(a), Fault::Error(b)) => a == b,
            (a, b) => std::mem::discriminant(&a) == std::mem::discriminant(&b),
        };
        FAULTS.iter().find(|&&(_, fault)| same_kind(fault)).map_or("error", |&(name, _)| name)
    }

    /// Whether the fault can happen to that call.
    #[must_use]
    pub fn applies(self, op: Op) -> bool {
        let opens = matches!(op, Op::Create | Op::Open | Op::Lock | Op::List | Op::SyncDir);
        let takes_space = op.mutates() && op != Op::Unlink;
        match self {
            Fault::Error(Errno::EIO) => true,
            Fault::Error(Errno::ENOSPC | Errno::EDQUOT) => takes_space,
            Fault::Error(Errno::EROFS) => op.mutates(),
            Fault::Error(Errno::EINTR) => {
                matches!(op, Op::Open | Op::Read | Op::Write | Op::Preallocate)
            }
            Fault::Error(Errno::EMFILE) => opens,
            Fault::Error(Errno::ENOMEM) => op == Op::Map,
            Fault::Error(Errno::EOPNOTSUPP) => matches!(op, Op::Preallocate | Op::Link),
            Fault::Error(_) => true,
            // A lock that landed would be held by nobody for ever.
            Fault::Landed(_) => op.mutates() && op != Op::Lock,
            Fault::Half(_) => op == Op::Write,
            Fault::Short => matches!(op, Op::Read | Op::Write),
            Fault::Sync(..) | Fault::Lie => matches!(op, Op::SyncData | Op::SyncAll),
            Fault::DirLie(_) => op == Op::SyncDir,
            Fault::Slow(_) => op.syncs(),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One directed fault: the `skip`-th and the following matching calls, `times` of them.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Only this call.
    pub op: Option<Op>,
    /// Only in this stage.
    pub stage: Option<u8>,
    /// Only paths that end so, as `.log`.
    pub path_end: Option<String>,
    /// How many matching calls go unharmed first.
    pub skip: u32,
    /// How many are harmed then; `u32::MAX` for all.
    pub times: u32,
    /// What happens to them.
    pub fault: Fault,
}

impl Rule {
    /// `fault` at the first call that it applies to.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self { op: None, stage: None, path_end: None, skip: 0, times: 1, fault }
    }

    /// Only at calls of `op`.
    #[must_use]
    pub fn op(mut self, op: Op) -> Self {
        self.op = Some(op);
        self
    }

    /// Only in `stage`.
    #[must_use]
    pub fn stage(mut self, stage: u8) -> Self {
        self.stage = Some(stage);
        self
    }

    /// Only for paths that end in `end`.
    #[must_use]
    pub fn path_end(mut self, end: &str) -> Self {
        self.path_end = Some(end.to_owned());
        self
    }

    /// Lets `skip` matching calls pass first.
    #[must_use]
    pub fn skip(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Harms `times` calls instead of one.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = times;
        self
    }

    fn matches(&self, op: Op, stage: u8, path: &str) -> bool {
        self.times > 0
            && self.op.is_none_or(|o| o == op)
            && self.stage.is_none_or(|s| s == stage)
            && self.fault.applies(op)
            && self.path_end.as_ref().is_none_or(|end| path.ends_with(end.as_str()))
    }
}

/// Which calls fail, and how.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// Directed faults; the first that matches a call decides.
    pub rules: Vec<Rule>,
    /// Faults at random, each with its chance in a million calls that it applies to.
    pub rates: Vec<(Fault, u32)>,
    /// Where the randomness of `rates` starts.
    pub seed: u64,
}

impl FaultPlan {
    /// A plan of one rule.
    #[must_use]
    pub fn one(rule: Rule) -> Self {
        Self { rules: vec![rule], ..Self::default() }
    }

    /// The fault of this call.
    pub(super) fn decide(&mut self, op: Op, stage: u8, path: &str) -> Option<Fault> {
        for rule in &mut self.rules {
            if !rule.matches(op, stage, path) {
                continue;
            }
            if rule.skip > 0 {
                rule.skip -= 1;
                continue;
            }
            if rule.times != u32::MAX {
                rule.times -= 1;
            }
            return Some(rule.fault);
        }
        for &(fault, per_million) in &self.rates {
            if fault.applies(op) {
                self.seed = self.seed.wrapping_add(1);
                if mix(self.seed) % 1_000_000 < u64::from(per_million) {
                    return Some(fault);
                }
            }
        }
        None
    }
}
