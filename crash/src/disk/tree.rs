//! The tree of names: directories, what they name, and what a crash may make of the names.
//!
//! Invariants
//! - Each name is a choice of its own: a rename is two of them, and a crash may keep either.
//! - A file is freed once no version of any name leads to it; its bytes then wait in a small pool
//!   of stale blocks.
//! - Nodes are shared by count: a clone costs one count per node, whatever their sizes.
//!
//! It knows no handles, no faults and no calls.

use super::errno::Errno;
use super::file::{Content, FileNode, Stamp, Values};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) type Ino = usize;
pub(super) const ROOT: Ino = 0;

/// How many freed files are remembered for their stale blocks, and how long they may be.
const STALE_MAX: usize = 8;
const STALE_BYTES_MAX: usize = 4 << 20;

#[derive(Clone, Debug, Default)]
pub(super) struct DirNode {
    pub(super) names: BTreeMap<Arc<str>, Values<Option<Ino>>>,
}

impl DirNode {
    pub(super) fn get(&self, name: &str) -> Option<Ino> {
        self.names.get(name).and_then(Values::now)
    }

    fn is_empty(&self) -> bool {
        self.names.values().all(|v| v.now().is_none())
    }
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File(Arc<FileNode>),
    Dir(Arc<DirNode>),
    Free,
}

/// All that a disk holds, memory's part of it included; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    /// Contents of freed files, newest last.
    pub(super) stale: Vec<Arc<Content>>,
    /// The last stamp given.
    pub(super) stamp: Stamp,
}

impl Tree {
    pub(super) fn new() -> Self {
        Self { nodes: vec![Node::Dir(Arc::default())], stale: Vec::new(), stamp: 0 }
    }

    pub(super) fn next_stamp(&mut self) -> Stamp {
        self.stamp += 1;
        self.stamp
    }

    pub(super) fn file(&self, ino: Ino) -> Result<&FileNode, Errno> {
        match &self.nodes[ino] {
            Node::File(file) => Ok(file),
            Node::Dir(_) => Err(Errno::EISDIR),
            Node::Free => Err(Errno::EBADF),
        }
    }

    pub(super) fn file_mut(&mut self, ino: Ino) -> Result<&mut FileNode, Errno> {
        match &mut self.nodes[ino] {
            Node::File(file) => Ok(Arc::make_mut(file)),
            Node::Dir(_) => Err(Errno::EISDIR),
            Node::Free => Err(Errno::EBADF),
        }
    }

    pub(super) fn dir(&self, ino: Ino) -> Result<&DirNode, Errno> {
        match &self.nodes[ino] {
            Node::Dir(dir) => Ok(dir),
            _ => Err(Errno::ENOTDIR),
        }
    }

    pub(super) fn dir_mut(&mut self, ino: Ino) -> Result<&mut DirNode, Errno> {
        match &mut self.nodes[ino] {
            Node::Dir(dir) => Ok(Arc::make_mut(dir)),
            _ => Err(Errno::ENOTDIR),
        }
    }

    /// The node that `path` names; relative paths start at the root.
    pub(super) fn lookup(&self, path: &str) -> Result<Ino, Errno> {
        let mut at = ROOT;
        for name in components(path) {
            at = self.dir(at)?.get(name).ok_or(Errno::ENOENT)?;
        }
        Ok(at)
    }

    /// The directory that holds or would hold `path`, and the name in it.
    pub(super) fn locate<'p>(&self, path: &'p str) -> Result<(Ino, &'p str), Errno> {
        let mut at = ROOT;
        let mut last = None;
        for name in components(path) {
            if let Some(dir) = last.replace(name) {
                at = self.dir(at)?.get(dir).ok_or(Errno::ENOENT)?;
            }
        }
        self.dir(at)?;
        Ok((at, last.ok_or(Errno::EBUSY)?))
    }

    /// Whether the directory at `path` is `ino` or lies below it.
    fn passes(&self, path: &str, ino: Ino) -> bool {
        let mut at = ROOT;
        for name in components(path) {
            match self.dir(at).ok().and_then(|dir| dir.get(name)) {
                Some(next) => at = next,
                None => return false,
            }
            if at == ino {
                return true;
            }
        }
        false
    }

    pub(super) fn set_name(&mut self, dir: Ino, name: &str, to: Option<Ino>) -> Result<(), Errno> {
        let stamp = self.next_stamp();
        let names = &mut self.dir_mut(dir)?.names;
        match names.get_mut(name) {
            Some(values) => values.set(stamp, to),
            None => {
                let mut values = Values::new(None);
                values.set(stamp, to);
                names.insert(Arc::from(name), values);
            }
        }
        Ok(())
    }

    pub(super) fn add(&mut self, node: Node) -> Ino {
        let free = self.nodes.iter().position(|n| matches!(n, Node::Free));
        let ino = free.unwrap_or(self.nodes.len());
        if ino == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[ino] = node;
        }
        ino
    }

    /// Adds an entry for a new node; nothing may have the name.
    pub(super) fn create(&mut self, path: &str, node: Node) -> Result<Ino, Errno> {
        let (dir, name) = match self.locate(path) {
            Err(Errno::EBUSY) => return Err(Errno::EEXIST),
            found => found?,
        };
        if self.dir(dir)?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        let ino = self.add(node);
        self.set_name(dir, name, Some(ino))?;
        Ok(ino)
    }

    pub(super) fn rename(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let (from_dir, from_name) = self.locate(from)?;
        let (to_dir, to_name) = self.locate(to)?;
        let ino = self.dir(from_dir)?.get(from_name).ok_or(Errno::ENOENT)?;
        let from_is_dir = self.dir(ino).is_ok();
        let old = self.dir(to_dir)?.get(to_name);
        if old == Some(ino) {
            return Ok(());
        }
        if from_is_dir && self.passes(to, ino) {
            return Err(Errno::EINVAL);
        }
        if let Some(old) = old {
            if self.passes(from, old) {
                return Err(Errno::ENOTEMPTY);
            }
            match self.dir(old) {
                Ok(_) if !from_is_dir => return Err(Errno::EISDIR),
                Err(_) if from_is_dir => return Err(Errno::ENOTDIR),
                Ok(dir) if !dir.is_empty() => return Err(Errno::ENOTEMPTY),
                _ => {}
            }
        }
        self.set_name(to_dir, to_name, Some(ino))?;
        self.set_name(from_dir, from_name, None)
    }

    pub(super) fn link(&mut self, from: &str, to: &str) -> Result<(), Errno> {
        let ino = self.lookup(from)?;
        let (dir, name) = self.locate(to)?;
        if self.dir(dir)?.get(name).is_some() {
            return Err(Errno::EEXIST);
        }
        self.file(ino).map_err(|_| Errno::EPERM)?;
        self.set_name(dir, name, Some(ino))
    }

    pub(super) fn unlink(&mut self, path: &str) -> Result<(), Errno> {
        let (dir, name) = self.locate(path)?;
        let ino = self.dir(dir)?.get(name).ok_or(Errno::ENOENT)?;
        self.file(ino)?;
        self.set_name(dir, name, None)
    }

    pub(super) fn sync_dir(&mut self, dir: Ino, upto: Stamp) -> Result<(), Errno> {
        let names = &mut self.dir_mut(dir)?.names;
        for values in names.values_mut() {
            values.sync(upto);
        }
        names.retain(|_, values| values.is_dirty() || values.now().is_some());
        Ok(())
    }

    /// A sync of what was changed in `dir` up to `upto` failed, and later ones lie about it.
    pub(super) fn fail_dir(&mut self, dir: Ino, upto: Stamp) -> Result<(), Errno> {
        for values in self.dir_mut(dir)?.names.values_mut().filter(|v| v.is_dirty()) {
            values.fail(upto);
        }
        Ok(())
    }

    /// A new process begins. A lie about a directory's own name ends: nobody could write such a
    /// name again, so no engine could ever be sure of it.
    pub(super) fn restart(&mut self) {
        let dirs: Vec<bool> = self.nodes.iter().map(|n| matches!(n, Node::Dir(_))).collect();
        for node in &mut self.nodes {
            let Node::Dir(dir) = node else { continue };
            if dir.names.values().any(Values::is_dirty) {
                let names = Arc::make_mut(dir).names.values_mut();
                let of_dir = |v: &&mut Values<Option<Ino>>| v.now().is_some_and(|ino| dirs[ino]);
                names.filter(of_dir).for_each(Values::heal);
            }
        }
    }

    /// Whether there are pages that memory drops later.
    pub(super) fn evicts(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node, Node::File(file) if file.evicts()))
    }

    /// Drops pages from memory that call number `call` finds evicted; whether there are more.
    pub(super) fn evict(&mut self, call: u64) -> bool {
        let mut more = false;
        for node in &mut self.nodes {
            if let Node::File(file) = node
                && file.evicts()
            {
                Arc::make_mut(file).evict(call);
                more |= file.evicts();
            }
        }
        more
    }

    /// Puts a durable node there, in the place of what is there, with the directories it needs.
    pub(super) fn put(&mut self, path: &str, node: Node) -> Result<(), Errno> {
        let new = self.add(node);
        let mut at = ROOT;
        let mut names = components(path).peekable();
        while let Some(name) = names.next() {
            let old = self.dir(at)?.get(name);
            let next = match old {
                _ if names.peek().is_none() => new,
                Some(ino) => ino,
                None => self.add(Node::Dir(Arc::default())),
            };
            self.dir_mut(at)?.names.insert(Arc::from(name), Values::new(Some(next)));
            at = next;
        }
        Ok(())
    }

    /// Marks the nodes that some version of some name leads to, beginning with the root.
    pub(super) fn reachable(&self) -> Vec<bool> {
        let mut seen = vec![false; self.nodes.len()];
        seen[ROOT] = true;
        let mut todo = vec![ROOT];
        while let Some(at) = todo.pop() {
            let Node::Dir(dir) = &self.nodes[at] else { continue };
            for (_, ino) in dir.names.values().flat_map(Values::versions) {
                if let Some(ino) = ino
                    && !std::mem::replace(&mut seen[ino], true)
                {
                    todo.push(ino);
                }
            }
        }
        seen
    }

    /// Frees what no name and no handle (`held`) leads to.
    pub(super) fn reap(&mut self, held: impl Fn(Ino) -> bool) {
        for (ino, seen) in self.reachable().into_iter().enumerate() {
            if seen || held(ino) {
                continue;
            }
            if let Node::File(file) = std::mem::replace(&mut self.nodes[ino], Node::Free) {
                let content = file.visible();
                if (1..=STALE_BYTES_MAX).contains(&content.bytes().len()) {
                    self.stale.push(content);
                }
            }
        }
        let extra = self.stale.len().saturating_sub(STALE_MAX);
        self.stale.drain(..extra);
    }

    /// After a crash has chosen: names of nothing and nodes without a name go.
    pub(super) fn settle(&mut self) {
        for node in &mut self.nodes {
            if let Node::Dir(dir) = node
                && dir.names.values().any(|values| values.now().is_none())
            {
                Arc::make_mut(dir).names.retain(|_, values| values.now().is_some());
            }
        }
        self.reap(|_| false);
    }

    /// Calls `f` with a path and the number of each node that some version of a name leads to.
    pub(super) fn walk_versions(&self, f: &mut impl FnMut(&str, Ino)) {
        let mut todo = vec![(ROOT, String::new())];
        let mut seen = vec![false; self.nodes.len()];
        while let Some((at, path)) = todo.pop() {
            let Node::Dir(dir) = &self.nodes[at] else { continue };
            for (name, values) in &dir.names {
                for ino in values.versions().filter_map(|(_, ino)| ino) {
                    if !std::mem::replace(&mut seen[ino], true) {
                        let path = format!("{path}/{name}");
                        f(&path, ino);
                        todo.push((ino, path));
                    }
                }
            }
        }
    }

    /// Calls `f` with the path and the node of everything that has a name now, parents first,
    /// names in byte order.
    pub(super) fn walk(&self, f: &mut impl FnMut(&str, &Node)) {
        self.walk_in(ROOT, &mut String::new(), f);
    }

    fn walk_in(&self, at: Ino, path: &mut String, f: &mut impl FnMut(&str, &Node)) {
        let Node::Dir(dir) = &self.nodes[at] else { return };
        for (name, values) in &dir.names {
            let Some(ino) = values.now() else { continue };
            let len = path.len();
            path.push('/');
            path.push_str(name);
            f(path, &self.nodes[ino]);
            self.walk_in(ino, path, f);
            path.truncate(len);
        }
    }

    /// A hash of every name, length and byte that can be read now.
    pub(super) fn hash(&self) -> u64 {
        let mut text = Vec::with_capacity(256);
        self.walk(&mut |path, node| {
            text.extend_from_slice(&(path.len() as u64).to_le_bytes());
            text.extend_from_slice(path.as_bytes());
            if let Node::File(file) = node {
                text.extend_from_slice(&file.len().to_le_bytes());
                text.extend_from_slice(&file.hash().to_le_bytes());
            }
        });
        xxhash_rust::xxh3::xxh3_64(&text)
    }
}

/// The names on the way of `path`. There is no `..`: it would be a name like another.
fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty() && *name != ".")
}
