//! Edits of responses for clients: over HTTP/1 and HTTP/2, stored or not.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::{HeaderMap, Request};
use proxy::rules::client_edits::{ClientEdits, HIDEABLE};
use testkit::origin::Origin;

use crate::http2_clients::on_connection;
use crate::rig::Rig;

/// Returns the edits that set these fields and hide all own ones.
fn edits(set: &[String]) -> Option<Arc<ClientEdits>> {
    Some(Arc::new(ClientEdits::new(set, &["x-secret".to_owned()], &HIDEABLE).unwrap()))
}

async fn fields(sender: &mut SendRequest<Bytes>, x_in: &[u8]) -> HeaderMap {
    let request = Request::get("http://a.example/a").header("x-in", x_in);
    let (response, _) = sender.send_request(request.body(()).unwrap(), true).unwrap();
    response.await.unwrap().headers().clone()
}

#[test]
fn http2_clients_get_edited_responses() {
    let origin = Origin::always(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX-Secret: 1\r\nX-In: 0\r\n\
         Content-Length: 2\r\n\r\nok",
    );
    let set = ["X-In: {header.x-in}".to_owned(), "X-Cache: {outcome} {status}".to_owned()];
    let rig = Rig::h2c_with(origin.address(), |options| options.client_edits = edits(&set));
    on_connection(rig.address, async |mut sender| {
        for outcome in ["MISS 200", "HIT_RAM 200"] {
            let fields = fields(&mut sender, b"\xff%0d%0aX-Evil: 1\t2").await;
            assert_eq!(fields["x-cache"], outcome);
            assert_eq!(fields["x-in"].as_bytes(), b"\xff%0d%0aX-Evil: 1 2");
            for name in ["x-secret", "x-evil", "via", "age", "cache-status"] {
                assert!(!fields.contains_key(name), "{name} {fields:?}");
            }
        }
    });
}

#[test]
fn a_thousand_edits_are_all_applied() {
    let origin = Origin::always(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nX-N7: 0\r\nContent-Length: 2\r\n\r\nok",
    );
    let mut set: Vec<_> = (0..1000).map(|n| format!("X-N{n}: {n} {{header.x-in}}")).collect();
    set.push("X-N7: last".to_owned());
    let rig = Rig::h2c_with(origin.address(), |options| options.client_edits = edits(&set));
    let mut client = rig.client();
    for _ in 0..3 {
        let reply = client.get("http://a.example/a");
        assert_eq!((reply.status, &reply.body[..]), (200, &b"ok"[..]));
        assert_eq!(reply.field("x-n7").as_deref(), Some("last"));
        assert_eq!(reply.field("x-n999").as_deref(), Some("999"));
    }
}
