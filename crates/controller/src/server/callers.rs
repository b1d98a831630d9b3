//! Identifies the callers of a site, and asks the API server what each may read. Both answers are cached for a short
//! while, so a view that is loaded again costs no request.

use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt as _};
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, ResourceAttributes, SubjectAccessReviewSpec};
use lru::LruCache;
use outside::sync::lock;
use outside::{Api, Error};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use super::gate::{self, Gate, Question, Ticket, Tickets, VALID_FOR, question};
use super::reviews::{authenticate, authorize};

/// How many rights are cached. The least recently used is evicted first, and requested again when needed.
const MAX_RIGHTS: NonZeroUsize = NonZeroUsize::new(4096).expect("4096 is not zero");
/// Maximum concurrent access reviews, for all callers together.
const MAX_QUESTIONS: usize = 16;
/// How many views one user may have under way, until each is read. Any account of the cluster could otherwise load the
/// API server in our name.
const MAX_VIEWS_PER_USER: usize = 4;
/// How many views all users may have under way. Each may be slow to be read, and is in memory until then.
const MAX_VIEWS: usize = 64;
/// The maximum number of open views per user that are notified of changes.
const MAX_FOLLOWED_PER_USER: usize = 20;
/// How many views all users may keep open, which leaves connections for others.
const MAX_FOLLOWED: usize = 200;

/// A right to a kind.
#[derive(Clone, Copy, Debug)]
pub struct Right<'r> {
    /// `get`, `list` or `patch`.
    pub verb: &'r str,
    /// The API group of the kind.
    pub group: &'r str,
    /// The plural name of the kind.
    pub plural: &'r str,
    /// The namespace; empty for all of them, and for cluster-scoped kinds.
    pub namespace: &'r str,
}

/// What a caller may do.
pub trait Access: Send + Sync {
    /// Returns whether the caller has the right.
    fn has<'r>(&'r self, right: Right<'r>) -> BoxFuture<'r, Result<bool, Error>>;
    /// Returns whether the caller may `get` this path of a process, such as `/metrics`.
    fn gets<'r>(&'r self, path: &'r str) -> BoxFuture<'r, Result<bool, Error>>;
}

/// Everyone who reads a site.
pub(super) struct Callers {
    api: Arc<dyn Api>,
    users: Gate<Arc<User>>,
    rights: Mutex<LruCache<Question, (bool, Instant)>>,
    questions: Semaphore,
    views: Shares,
    followed: Shares,
}

/// Limits what users have under way, each of them and all together.
struct Shares {
    each: Tickets<Question>,
    all: Tickets<()>,
}

/// A caller's share of the limits, held until it is dropped.
type Share = (Ticket<Question>, Ticket<()>);

/// The limit that a caller's request counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// An answer.
    View,
    /// An open answer, to which news of changes are added.
    Follow,
}

/// A user, with a digest of everything that an authorizer may consider.
#[derive(Debug, PartialEq)]
pub(super) struct User {
    info: UserInfo,
    digest: Question,
    /// A digest of the name alone. What the API server adds differs for each token, and anyone may request many.
    name: Question,
}

/// A caller whose token was reviewed.
pub(super) struct Caller {
    all: Arc<Callers>,
    user: Arc<User>,
    _share: Share,
}

impl Caller {
    pub(super) fn name(&self) -> &str {
        self.user.info.username.as_deref().unwrap_or_default()
    }
}

pub(super) enum Called {
    Known(Caller),
    /// The token belongs to no user.
    Unauthenticated,
    /// The caller's other requests are still being answered.
    Busy,
}

impl Callers {
    pub(super) fn new(api: Arc<dyn Api>) -> Callers {
        Callers {
            api,
            users: Gate::new(),
            rights: Mutex::new(LruCache::new(MAX_RIGHTS)),
            questions: Semaphore::new(MAX_QUESTIONS),
            views: Shares::at_most(MAX_VIEWS_PER_USER, MAX_VIEWS),
            followed: Shares::at_most(MAX_FOLLOWED_PER_USER, MAX_FOLLOWED),
        }
    }

    /// Identifies the caller with this token.
    ///
    /// # Errors
    /// The API server does not answer.
    pub(super) async fn identify(self: &Arc<Self>, client: IpAddr, token: &str, used: Use) -> Result<Called, Error> {
        let shares = match used {
            Use::View => &self.views,
            Use::Follow => &self.followed,
        };
        Ok(match self.users.judge(client, question([token.as_bytes()]), self.review(token)).await? {
            gate::Verdict::Allowed(user) => match shares.begin(user.name) {
                Some(share) => Called::Known(Caller { all: self.clone(), user, _share: share }),
                None => Called::Busy,
            },
            gate::Verdict::Unauthenticated | gate::Verdict::Denied(_) => Called::Unauthenticated,
            gate::Verdict::Busy => Called::Busy,
        })
    }

    async fn review(&self, token: &str) -> Result<gate::Verdict<Arc<User>>, Error> {
        let Some(info) = authenticate(&*self.api, token).await? else { return Ok(gate::Verdict::Unauthenticated) };
        let digest = question([&*serde_json::to_vec(&info).map_err(Error::Json)?]);
        let name = question([info.username.as_deref().unwrap_or_default().as_bytes()]);
        Ok(gate::Verdict::Allowed(Arc::new(User { info, digest, name })))
    }

    async fn ask(&self, user: &User, words: &[&str], asked: SubjectAccessReviewSpec) -> Result<bool, Error> {
        let question = question(std::iter::once(&user.digest[..]).chain(words.iter().map(|word| word.as_bytes())));
        let known = |rights: &mut LruCache<Question, (bool, Instant)>| {
            rights.get(&question).filter(|(_, until)| Instant::now() < *until).map(|(has, _)| *has)
        };
        if let Some(has) = known(&mut lock(&self.rights)) {
            return Ok(has);
        }
        // The semaphore is never closed.
        let _permit = self.questions.acquire().await.ok();
        let has = authorize(&*self.api, user.info.clone(), asked).await?;
        lock(&self.rights).put(question, (has, Instant::now() + VALID_FOR));
        Ok(has)
    }
}

impl Shares {
    fn at_most(each: usize, all: usize) -> Shares {
        Shares { each: Tickets::at_most(each), all: Tickets::at_most(all) }
    }

    fn begin(&self, user: Question) -> Option<Share> {
        Some((self.each.begin(user)?, self.all.begin(())?))
    }
}

impl Access for Caller {
    fn has<'r>(&'r self, right: Right<'r>) -> BoxFuture<'r, Result<bool, Error>> {
        let Right { verb, group, plural, namespace } = right;
        async move {
            let attributes = ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(plural.to_owned()),
                namespace: Some(namespace.to_owned()),
                ..ResourceAttributes::default()
            };
            let asked =
                SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..SubjectAccessReviewSpec::default() };
            self.all.ask(&self.user, &[verb, group, plural, namespace], asked).await
        }
        .boxed()
    }

    fn gets<'r>(&'r self, path: &'r str) -> BoxFuture<'r, Result<bool, Error>> {
        async move {
            let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some("get".to_owned()) };
            let asked = SubjectAccessReviewSpec {
                non_resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            };
            self.all.ask(&self.user, &["get", path], asked).await
        }
        .boxed()
    }
}
