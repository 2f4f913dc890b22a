//! The people of a story: they ask, they cancel, they say yes, they say everything twice, and they look
//! after runs that wait for them. They also start the nodes that died again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use e2e::dice::Dice;
use jobs::authorization::PushResult;
use jobs::clock::Clock as _;
use jobs::event::{CommentEvent, Event, SenderKind};
use jobs::forge::{Account, CommentPlace, ForgeKind, Subject};
use jobs::id::RunId;
use jobs::run::{HaltReason, RunState};
use jobs::store::deliveries::{self, Delivery, DeliveryKey};
use jobs::store::runs::{self, HaltRequest};
use runners::progress::{Attempt, Happening, Progress};
use tokio::sync::broadcast;
use webhooks::forge::{CheckStatus, Conclusion};

use crate::world::{Ground, World};

/// Turns of the people after which a story is stuck.
const MOST_TURNS: u64 = 200_000;
/// Nobody waits longer than this for anything, so that after it nothing is left to be done.
const QUIET: [i64; 3] = [40_000, 130_000, 3_700_000];

pub struct People {
    world: Arc<World>,
    dice: Dice,
    /// What was said and is to be delivered, perhaps again.
    mail: Vec<Delivery>,
    comments: i64,
    deliveries: u64,
    lives: u64,
    heard: broadcast::Receiver<Progress>,
    /// How often somebody let a run go on whose launch nobody knew the end of.
    pub resumed: BTreeMap<RunId, u64>,
    /// How often each run's agent was called.
    pub called: BTreeMap<RunId, u64>,
    /// How often a node took up a run that another had begun.
    pub taken_over: u64,
    /// Repositories whose run somebody will say yes to.
    willing: Vec<String>,
    yes: BTreeMap<RunId, u64>,
}

impl People {
    pub fn new(world: &Arc<World>, ground: &Ground, mut dice: Dice) -> Self {
        let asked = 1 + dice.roll(ground.places.len() as u64) as usize;
        let first = dice.roll(ground.places.len() as u64) as usize;
        let heard = world.progress.subscribe();
        let mut people = Self {
            world: Arc::clone(world),
            dice,
            mail: Vec::new(),
            comments: 0,
            deliveries: 0,
            lives: 0,
            heard,
            resumed: BTreeMap::new(),
            called: BTreeMap::new(),
            taken_over: 0,
            willing: Vec::new(),
            yes: BTreeMap::new(),
        };
        for number in 0..asked {
            let place = ground.places[(first + number) % ground.places.len()].name.clone();
            people.say(&place, "ada", "/whipstitch fix");
            let about_pushes = world.trouble.is_about_pushes();
            if people.dice.roll(6) == 0 && !about_pushes {
                people.say(&place, "grace", "/whipstitch cancel");
            }
            if people.dice.roll(5) > 0 || about_pushes {
                people.willing.push(place);
            }
        }
        people
    }

    /// Somebody comments; the forge sends it, perhaps more than once and perhaps as another delivery.
    fn say(&mut self, place: &str, login: &str, body: &str) {
        self.comments += 1;
        let id = if login == "ada" { 1 } else { 2 };
        let event = Event::Comment(CommentEvent {
            repository: World::repository(place),
            subject: Subject::PullRequest { number: 1 },
            comment_id: self.comments,
            body: body.to_owned(),
            sender: Account { id, login: login.to_owned() },
            sender_kind: SenderKind::Person,
            place: CommentPlace::Conversation,
            app: None,
        });
        for _ in 0..=self.dice.roll(2) {
            self.deliveries += 1;
            let key = DeliveryKey { forge: ForgeKind::Local, id: self.deliveries.to_string() };
            for _ in 0..=self.dice.roll(2) {
                let (key, event) = (key.clone(), event.clone());
                self.mail.push(Delivery { key, event, body: b"{}".to_vec(), received_at: 0 });
            }
        }
    }

    /// Lives until nothing is left to be done. The caller has the turn.
    pub async fn live(&mut self) {
        let mut quiet = 0;
        for _ in 0..MOST_TURNS {
            if let Some(why) = self.world.broken.lock().unwrap().take() {
                panic!("seed {}: {why}", self.world.seed);
            }
            if self.world.worked.swap(false, Ordering::Relaxed) {
                quiet = 0;
            }
            self.hear();
            self.replace_the_dead();
            let idle = self.world.idle.load(Ordering::Relaxed) > 2 * self.world.skews.len() as u64;
            if !self.mail.is_empty() && (idle || self.dice.roll(20) == 0) {
                let drawn = self.dice.roll(self.mail.len() as u64) as usize;
                let delivery = self.mail.swap_remove(drawn);
                let delivery = Delivery { received_at: self.world.clock.now(), ..delivery };
                deliveries::record(&self.world.db, &delivery).await.unwrap();
                self.busy(&mut quiet);
            } else if idle {
                if self.look_after_runs().await {
                    self.busy(&mut quiet);
                } else if quiet == QUIET.len() {
                    return;
                } else {
                    self.world.clock.advance(QUIET[quiet]);
                    self.world.idle.store(0, Ordering::Relaxed);
                    quiet += 1;
                }
            }
            self.world.turns.next(0).await;
        }
        panic!("seed {} does not come to an end", self.world.seed);
    }

    fn busy(&self, quiet: &mut usize) {
        *quiet = 0;
        self.world.idle.store(0, Ordering::Relaxed);
    }

    fn hear(&mut self) {
        loop {
            match self.heard.try_recv() {
                Ok(Progress { run, what: Happening::Command { name, .. }, .. }) if name == "agent" => {
                    *self.called.entry(run).or_default() += 1;
                }
                Ok(Progress { what: Happening::Claimed { attempt: Attempt::Again, .. }, .. }) => {
                    self.taken_over += 1;
                }
                Ok(_) => {}
                Err(broadcast::error::TryRecvError::Empty) => return,
                Err(error) => panic!("seed {}: {error}", self.world.seed),
            }
        }
    }

    fn replace_the_dead(&mut self) {
        let dead = std::mem::take(&mut *self.world.dead.lock().unwrap());
        for who in dead {
            self.lives += 1;
            self.world.start(who, self.lives);
            self.world.idle.store(0, Ordering::Relaxed);
        }
    }

    /// Does what waits for a person; whether there was something.
    async fn look_after_runs(&mut self) -> bool {
        for run in runs::list(&self.world.db, 100).await.unwrap() {
            let now = self.world.clock.now();
            match run.state {
                RunState::Suspended { .. } if self.dice.roll(4) == 0 => {
                    let reason = HaltReason::Cancelled("given up by ada".to_owned());
                    let request = HaltRequest { by: "ada".to_owned(), reason };
                    runs::cancel(&self.world.db, &run.id, &request, now).await.unwrap();
                    return true;
                }
                RunState::Suspended { .. } => {
                    *self.resumed.entry(run.id.clone()).or_default() += 1;
                    runs::resume(&self.world.db, &run.id, "ada", now).await.unwrap();
                    return true;
                }
                RunState::Finished { .. } if self.says_yes(&run.id).await => return true,
                RunState::Queued | RunState::Running { .. } | RunState::Finished { .. } => {}
            }
        }
        false
    }

    /// Says yes where a patch waits for it, and once more where the last push did not arrive.
    async fn says_yes(&mut self, run: &RunId) -> bool {
        let view = runs::view(&self.world.db, run).await.unwrap().unwrap();
        let place = view.job().repository.name.clone();
        let asked = self.yes.get(run).copied().unwrap_or(0);
        let waits = self.world.forge.held().checks.values().any(|(_, check)| {
            let is_asked =
                matches!(check.status, CheckStatus::Completed { conclusion: Conclusion::ActionRequired, .. });
            check.external_id == run.to_string() && is_asked
        });
        let again = match view.authorizations.last().map(|recorded| &recorded.result) {
            None => asked < 3,
            Some(Some(PushResult::Refused { why })) => asked < 8 && why.contains("authorize the patch again"),
            Some(_) => false,
        };
        if !(waits && again && self.willing.contains(&place)) {
            return false;
        }
        *self.yes.entry(run.clone()).or_default() += 1;
        self.say(&place, "ada", "/whipstitch apply");
        if self.dice.roll(2) == 0 {
            self.say(&place, "grace", "/whipstitch apply");
        }
        true
    }
}
