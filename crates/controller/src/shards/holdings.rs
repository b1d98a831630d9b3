//! The resources that this shard serves, each with its own term: once the resource goes to another shard or is gone, no
//! write for it is sent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use outside::Api;
use outside::sync::lock;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::kinds::{Controllers, Holdings};
use super::within::Within;
use super::{Ring, ShardSelector, Share, Standing};
use crate::ResourceKey;
use crate::client::within;
use crate::lease::Term;

/// How long writes in flight may delay the acknowledgement of a drain; after that it is tried again.
const SETTLING: Duration = Duration::from_secs(2);

/// A share of the resources, and what this shard serves of it for one controller. Clones share it.
#[derive(Clone, Debug)]
pub struct Shard {
    share: Share,
    holdings: Holdings,
    /// The controllers of the kind, with this one.
    controllers: Controllers,
}

/// The right to write for one resource. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Holding {
    pub(super) term: Term,
    leaving: CancellationToken,
    /// Cancelled once the resource is another shard's, with or without a drain.
    gone: CancellationToken,
}

impl Holding {
    /// Waits until the resource must go to another shard: no more work may begin for it.
    pub async fn left(&self) {
        self.leaving.cancelled().await;
    }

    /// Returns whether the resource must go to another shard.
    pub fn is_leaving(&self) -> bool {
        self.leaving.is_cancelled()
    }

    /// Waits until the resource is another shard's.
    pub(super) async fn gone(&self) {
        self.gone.cancelled().await;
    }

    pub(super) fn end(&self) {
        self.leaving.cancel();
        self.term.set_end(Instant::now());
    }
}

impl Shard {
    /// Creates the shard of a kind's only controller, which serves nothing yet.
    pub fn new(share: impl Into<Share>) -> Shard {
        Shard::beside(Controllers::default(), share.into())
    }

    /// Creates the shard of one more controller of a kind.
    pub(super) fn beside(controllers: Controllers, share: Share) -> Shard {
        let holdings = Holdings::default();
        controllers.add(holdings.clone());
        Shard { share, holdings, controllers }
    }

    /// Returns the ring, if labels assign the resources.
    pub fn ring(&self) -> Option<&Ring> {
        match &self.share {
            Share::Ring(ring) => Some(ring),
            Share::Range(_) => None,
        }
    }

    /// Returns the range, if a hash assigns the resources.
    pub fn range(&self) -> Option<&ShardSelector> {
        match &self.share {
            Share::Ring(_) => None,
            Share::Range(selector) => Some(selector),
        }
    }

    /// Returns how this shard must treat a resource with this metadata.
    pub fn standing(&self, of: &ObjectMeta) -> Standing {
        let text = |of: &Option<String>| of.clone().unwrap_or_default();
        self.share.standing(&text(&of.uid), &text(&of.namespace), of.labels.as_ref().unwrap_or(&BTreeMap::new()))
    }

    /// Begins a reconcile of a resource that is this shard's: returns the right to write for it. Read the resource's
    /// labels once more after this call, which may overtake a drain.
    pub fn begin(&self, key: &ResourceKey) -> Holding {
        let mut holdings = lock(&self.holdings);
        let holding = holdings.entry(key.clone()).or_default();
        if holding.term.is_over() {
            *holding = Holding::default();
        } else if holding.is_leaving() {
            // Its writes in flight still count.
            holding.leaving = CancellationToken::new();
        }
        holding.clone()
    }

    /// Returns the right to write for a resource, which has ended if no reconcile has begun.
    pub fn holding(&self, key: &ResourceKey) -> Holding {
        let known = lock(&self.holdings).get(key).cloned();
        known.unwrap_or_else(|| {
            let ended = Holding::default();
            ended.end();
            ended
        })
    }

    /// Returns the number of resources for which a reconcile has begun and that have not left since.
    pub fn serving(&self) -> usize {
        lock(&self.holdings).len()
    }

    /// Follows a change of a resource's labels, or that it is gone.
    pub fn follow(&self, key: &ResourceKey, standing: Standing) {
        match standing {
            Standing::Ours => {}
            Standing::Drained => lock(&self.holdings).get(key).into_iter().for_each(|holding| holding.leaving.cancel()),
            Standing::Others => lock(&self.holdings).remove(key).into_iter().for_each(|holding| {
                holding.end();
                holding.gone.cancel();
            }),
        }
    }

    /// Ends the right to write for a resource, for all controllers of its kind, and waits until the writes in flight are
    /// answered. Returns whether all were answered: only then may another shard begin.
    pub async fn settled(&self, key: &ResourceKey) -> bool {
        let (terms, until) = (self.controllers.end(key), Instant::now() + SETTLING);
        join_all(terms.iter().map(|term| term.settle_by(until))).await.into_iter().all(|is_settled| is_settled)
    }

    /// Returns a connection that sends writes for this resource only while this shard serves it.
    pub fn api(&self, key: &ResourceKey, api: Arc<dyn Api>) -> Arc<dyn Api> {
        Arc::new(Within { api, holding: self.holding(key) })
    }

    /// Returns a client that sends writes only while this shard serves the resource.
    pub fn client(&self, key: &ResourceKey, client: Client) -> Client {
        let Holding { term, gone, .. } = self.holding(key);
        within(client, term, gone)
    }
}

#[cfg(test)]
mod tests {
    use futures::future::BoxFuture;
    use outside::{Call, Error, MemoryApi, Pieces, Response};

    use super::super::Kinds;
    use super::*;

    fn shard() -> (Shard, ResourceKey) {
        (Shard::new(Ring::new("r", Some("a")).unwrap()), ResourceKey::new("ns", "web"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_that_has_gone_is_read_but_not_written() {
        let (shard, key) = shard();
        let server = Arc::new(MemoryApi::new());
        let map = |name: &str| {
            let map = format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"{name}"}}}}"#);
            Call::post("/api/v1/namespaces/ns/configmaps", map.into_bytes())
        };
        let holding = shard.begin(&key);
        let api = shard.api(&key, server.clone());
        api.send(map("a")).await.unwrap();
        shard.follow(&key, Standing::Ours);
        shard.follow(&key, Standing::Drained);
        assert!(holding.is_leaving());
        api.send(map("b")).await.expect("the current step ends");
        shard.follow(&key, Standing::Others);
        let error = api.send(map("c")).await.unwrap_err();
        assert!(matches!(error, Error::Moved) && error.is_unanswered() && !error.is_transient(), "{error}");
        assert!(api.stream(map("c")).await.is_err());
        api.send(Call::get("/api/v1/namespaces/ns/configmaps/a")).await.unwrap();
        assert!(server.object("/api/v1/namespaces/ns/configmaps/c").is_none());
        assert!(shard.api(&key, server.clone()).send(map("c")).await.is_err(), "nothing was begun since");
        assert!(!shard.begin(&key).is_leaving(), "it came back");
        shard.api(&key, server).send(map("c")).await.unwrap();
    }

    /// A server that never answers, like one that asks for ever to try again.
    struct Silent;

    impl Api for Silent {
        fn send(&self, _: Call) -> BoxFuture<'_, Result<Response, Error>> {
            Box::pin(std::future::pending())
        }

        fn stream(&self, _: Call) -> BoxFuture<'_, Result<Pieces, Error>> {
            Box::pin(std::future::pending())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_waits_to_be_sent_again_is_given_up_once_the_resource_has_gone() {
        let (shard, key) = shard();
        shard.begin(&key);
        let api = shard.api(&key, Arc::new(Silent));
        let moves = async {
            shard.follow(&key, Standing::Drained);
            tokio::time::sleep(Duration::from_secs(60)).await;
            shard.follow(&key, Standing::Others);
        };
        let delete = api.send(Call::delete("/api/v1/namespaces/ns/configmaps/a", vec![]));
        let (answer, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(90), delete), moves);
        assert!(matches!(answer, Ok(Err(Error::Moved))));
    }

    #[test]
    fn a_range_is_served_whatever_the_labels_of_its_resources() {
        // `a` has the hash 0xaf63dc4c8601ec8c.
        let range = |field| format!("shardRange(object.metadata.{field}, '0x8000000000000000', '0xb000000000000000')");
        let of = |field| Shard::new(range(field).parse::<super::super::ShardSelector>().unwrap());
        for (field, uid, namespace, expected) in [
            ("uid", "a", "default", Standing::Ours),
            ("uid", "default", "a", Standing::Others),
            ("namespace", "default", "a", Standing::Ours),
            ("namespace", "a", "", Standing::Others),
        ] {
            let labels = BTreeMap::from([("drain.alpha.sharding.timebertt.dev/r".to_owned(), "true".to_owned())]);
            let (uid, namespace) = (Some(uid.to_owned()), Some(namespace.to_owned()).filter(|name| !name.is_empty()));
            let metadata = ObjectMeta { uid, namespace, labels: Some(labels), ..ObjectMeta::default() };
            assert_eq!(of(field).standing(&metadata), expected, "{metadata:?}");
        }
        assert!(of("uid").ring().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_writes_in_flight() {
        let (shard, key) = shard();
        let other = ResourceKey::new("ns", "other");
        assert!(shard.settled(&key).await, "nothing was begun");
        shard.begin(&key);
        shard.begin(&other);
        let in_flight = shard.holding(&key).term.begin_write().unwrap();
        shard.follow(&key, Standing::Drained);
        assert!(!shard.settled(&key).await);
        assert!(shard.holding(&key).term.begin_write().is_err());
        assert!(shard.holding(&other).term.begin_write().is_ok(), "other resources are unaffected");
        in_flight.answered();
        assert!(shard.settled(&key).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_drain_waits_for_the_writes_of_every_controller_of_the_kind() {
        let (kinds, (_, key)) = (Kinds::default(), shard());
        let add = |kind: &str| kinds.shard(kind, Ring::new("r", Some("a")).unwrap().into());
        let (idle, busy, elsewhere) = (add("Note.example.com"), add("Note.example.com"), add("Shelf.example.com"));
        busy.begin(&key);
        elsewhere.begin(&key);
        let in_flight = busy.holding(&key).term.begin_write().unwrap();
        assert!(!idle.settled(&key).await);
        assert!(busy.holding(&key).is_leaving() && !elsewhere.holding(&key).is_leaving());
        drop(busy);
        let next = add("Note.example.com");
        assert!(!next.settled(&key).await, "the previous controller has ended, but its write has no answer yet");
        in_flight.answered();
        assert!(next.settled(&key).await && idle.settled(&key).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_that_one_controller_rejects_stays_anothers() {
        let (kinds, (_, key)) = (Kinds::default(), shard());
        let [one, other] = [(); 2].map(|()| kinds.shard("Note.example.com", Ring::new("r", Some("a")).unwrap().into()));
        one.begin(&key);
        other.begin(&key);
        one.follow(&key, Standing::Others);
        assert!(one.holding(&key).is_leaving() && !other.holding(&key).is_leaving());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_abandoned_by_an_earlier_reconcile_still_delays_the_drain() {
        let (shard, key) = shard();
        shard.begin(&key);
        drop(shard.holding(&key).term.begin_write().unwrap());
        shard.begin(&key);
        let asked = Instant::now();
        assert!(shard.settled(&key).await);
        assert!(asked.elapsed() >= Duration::from_millis(900), "{:?}", asked.elapsed());
    }
}
