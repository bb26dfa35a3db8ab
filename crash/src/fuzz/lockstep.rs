//! Operations from any bytes, the engine beside the oracle.
//!
//! - `ops`: a case on a disk that does not fail; every answer is compared.
//! - `ops_crash`: the same, with the power cut or the process killed at calls that the input
//!   chooses; what is recovered is compared with everything that may be left (D1 to D4, A1, O3), is
//!   audited, used, and sometimes crashed again.

use super::{env, up_to, world};
use crate::adapter::SimFs;
use crate::disk::{Disk, Moment, Snapshot};
use arbitrary::Unstructured;
use kiban::env::sync::{Arc, Mutex};
use kiban_model::driver::{self, Driver, Recovered, Tolerance};
use kiban_model::durable::{Bounds, CrashClass};
use kiban_model::generate::{Mix, Plan};
use kiban_model::ops::{Case, Op};
use kiban_model::value::Value;

const OPS_MAX: usize = 200;
/// Images of one input; each costs an open.
const IMAGES_MAX: usize = 24;
const DIR: &str = "/db/data";

/// A case in lockstep, without crashes.
pub fn ops(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let case = case(&mut u, &[]);
    let (_fs, world) = world(6);
    if let Err(failure) = driver::run(world, DIR, &case) {
        panic!("{failure}\n{case}");
    }
}

/// A swarm's case; the kinds in `off` do not occur.
fn case(u: &mut Unstructured<'_>, off: &[&str]) -> Case {
    let mut plan = Plan::new(u, Mix::Swarm);
    // So that some kind is left whatever the swarm and `off` take away.
    plan.weigh("put", 100);
    for kind in off {
        plan.weigh(kind, 0);
    }
    plan.case(u, OPS_MAX)
}

/// Where crashes fall: how many of the disk's calls pass before the next one.
struct Camera {
    gaps: Vec<u64>,
    shots: Vec<Snapshot>,
}

impl Camera {
    fn see(&mut self, disk: &Disk) {
        match self.gaps.last_mut() {
            Some(0) => {
                self.gaps.pop();
                self.shots.push(disk.snapshot());
            }
            Some(gap) => *gap -= 1,
            None => {}
        }
    }
}

/// A case in lockstep, with crashes.
pub fn ops_crash(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let gaps = (0..u.arbitrary_len::<u8>().map_or(0, |len| len.min(8))).map(|_| up_to(&mut u, 60));
    let camera = Arc::new(Mutex::new(Camera { gaps: gaps.collect(), shots: Vec::new() }));
    let seed = up_to(&mut u, u64::MAX);
    // An open decides what is in doubt: a shot inside of one has another truth.
    let case = case(&mut u, &["reopen", "close", "read_only"]);
    let (fs, world) = world(7);
    let fail = |what: &dyn std::fmt::Display| -> ! { panic!("{what}\n{case}") };
    let created = Driver::create(world, DIR, case.config.clone());
    let mut driver = created.unwrap_or_else(|mismatch| fail(&mismatch));
    let eye = camera.clone();
    fs.with(|disk| {
        disk.set_observer(Some(Box::new(move |point, disk: &Disk| {
            if point.moment == Moment::Return {
                eye.lock().see(disk);
            }
        })));
    });
    let mut images = Images { left: IMAGES_MAX, seed };
    for op in &case.ops {
        let before = driver.bounds();
        if let Err(mismatch) = driver.step(op) {
            fail(&mismatch);
        }
        let bounds = Bounds::during(before, driver.bounds());
        let shots = std::mem::take(&mut camera.lock().shots);
        for shot in shots {
            if let Err(mismatch) = images.examine(&driver, &shot, bounds, 0) {
                fail(&mismatch);
            }
        }
    }
}

struct Images {
    left: usize,
    seed: u64,
}

impl Images {
    /// Recovers some images of `shot`; to depth 2.
    fn examine(
        &mut self,
        driver: &Driver,
        shot: &Snapshot,
        bounds: Bounds,
        depth: u32,
    ) -> Result<(), driver::Mismatch> {
        self.seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(1);
        let killed = std::iter::once((shot.killed(), CrashClass::Kill));
        let cut = shot.images(3, self.seed).map(|image| (image.disk, CrashClass::Power));
        for (disk, class) in killed.chain(cut) {
            if self.left == 0 {
                return Ok(());
            }
            self.left -= 1;
            let fs = SimFs::new(disk);
            let (config, truth) = (driver.config().clone(), driver.truth.clone());
            let world = env(&fs, self.seed ^ self.left as u64);
            let none = Tolerance::default();
            match Driver::recover(world, DIR, config, truth, bounds, class, none)? {
                Recovered::Refused(_, error) => panic!("nothing was injected: {error}"),
                Recovered::Open(mut again) => {
                    again.audit()?;
                    again.step(&Op::Put {
                        key: b"after".to_vec(),
                        value: Value::Bytes(vec![b'v'; 9]),
                        durable: true,
                    })?;
                    again.step(&Op::Verify)?;
                    if depth == 0 && self.left.is_multiple_of(4) {
                        let shot = fs.with(|disk| disk.snapshot());
                        let bounds = again.bounds();
                        self.examine(&again, &shot, bounds, depth + 1)?;
                    }
                }
            }
        }
        Ok(())
    }
}
