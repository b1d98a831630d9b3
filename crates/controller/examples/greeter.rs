//! An operator for one kind: keeps a ConfigMap with a greeting for each ConfigMap that is labelled `greet`.
//!
//! `cargo run -p hybrid-controller --example greeter`, with a cluster in `KUBECONFIG`.

use controller::Manager;
use controller::manager::{Config, Error};
use controller::reconciler::{Cache, Next, Reconciler, Rights, Scope, Watching, WriteError};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;

pub(crate) struct Greeter;

impl Reconciler for Greeter {
    type Resource = ConfigMap;
    type Error = WriteError;
    type Caches = Cache<ConfigMap>;

    fn watch(&self, watching: &mut Watching<ConfigMap>) -> Cache<ConfigMap> {
        watching.labels("greet").owned("greeting")
    }

    fn rights(&self) -> Rights {
        Rights::none().applies::<ConfigMap>()
    }

    async fn reconcile(&self, scope: &Scope<'_, ConfigMap>, greetings: &Cache<ConfigMap>) -> Result<Next, WriteError> {
        let name = scope.resource().name_any();
        let mut greeting = ConfigMap::default();
        greeting.metadata.name = Some(format!("{name}-greeting"));
        greeting.metadata.labels = Some([("greeting".to_owned(), name.clone())].into());
        greeting.data = Some([("text".to_owned(), format!("Hello, {name}!"))].into());
        scope.apply(greetings, greeting).await?;
        Ok(Next::Wait)
    }
}

fn main() -> Result<(), Error> {
    tracing_subscriber::fmt().init();
    let config = Config { program: "greeter".into(), ..Config::default() };
    Manager::new(config).reconciler(Greeter).run_blocking()
}
