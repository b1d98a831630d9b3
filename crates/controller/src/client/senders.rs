//! Connections to the cluster for requests of people, with their tokens.

use std::sync::Arc;

use kube::Config;
use kube::client::ClientBuilder;
use kube::config::AuthInfo;
use outside::{Api, Error};

use super::{counted, prepared};
use crate::metrics::Metrics;

/// Returns a function that connects to the cluster with a token and nothing else: given a certificate, account or user
/// of this process, the API server would authenticate the request with that instead. Each connection is for one
/// request: people send few, and no token outlives its request.
pub(crate) fn senders(
    cluster: Config,
    program: &str,
    metrics: Metrics,
) -> impl Fn(&str) -> Result<Arc<dyn Api>, Error> + Send + Sync + 'static {
    let mut cluster = prepared(cluster, program);
    cluster.auth_info = AuthInfo::default();
    cluster.default_retry = false;
    move |token| {
        let mut cluster = cluster.clone();
        cluster.auth_info.token = Some(token.to_owned().into());
        let builder = ClientBuilder::try_from(cluster).map_err(|error| Error::Transport(Box::new(error)))?;
        Ok(Arc::new(builder.with_layer(&counted(metrics.clone())).build()))
    }
}

#[cfg(test)]
mod tests {
    use outside::Call;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// Sends a request as the user of a token from a process with this identity. Returns the head that arrives.
    async fn head(identity: AuthInfo, token: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut cluster = Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        cluster.auth_info = identity;
        let senders = senders(cluster, "shop", Metrics::default());
        let arrived = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = vec![0; 4096];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await.unwrap();
            String::from_utf8_lossy(&head[..length]).to_lowercase()
        });
        senders(token).unwrap().send(Call::merge("/apis/g/v1/shops/web", b"{}".to_vec())).await.unwrap();
        arrived.await.unwrap()
    }

    #[tokio::test]
    async fn a_request_has_the_token_of_its_sender_and_no_identity_of_the_process() {
        let password = AuthInfo {
            username: Some("operator".into()),
            password: Some("own-password".to_owned().into()),
            ..AuthInfo::default()
        };
        let own = [
            AuthInfo { token: Some("own-token".to_owned().into()), ..AuthInfo::default() },
            AuthInfo { token_file: Some("/no/such/file".into()), ..AuthInfo::default() },
            AuthInfo { impersonate: Some("own-user".into()), ..password.clone() },
            password,
        ];
        for identity in own {
            let head = head(identity, "theirs").await;
            assert!(head.starts_with("patch /apis/g/v1/shops/web http/1.1\r\n"), "{head}");
            assert!(head.contains("\r\nauthorization: bearer theirs\r\n"), "{head}");
            assert_eq!(head.matches("authorization:").count(), 1, "{head}");
            assert!(!head.contains("own-") && !head.contains("impersonate") && !head.contains("basic"), "{head}");
            assert!(head.contains("\r\nuser-agent: shop/"), "{head}");
        }
    }
}
