use std::fs;
use std::path::Path;

use openssl::pkey::{PKey, Private};

use super::*;
use crate::http::self_signed;

fn config(folder: &Path, authority: &X509) -> kube::Config {
    let mut config = kube::Config::new("https://127.0.0.1/".parse().unwrap());
    config.root_cert = Some(vec![authority.to_der().unwrap()]);
    let file = |name: &str| Some(folder.join(name).to_str().unwrap().to_owned());
    config.auth_info.client_certificate = file("tls.crt");
    config.auth_info.client_key = file("tls.key");
    config
}

#[test]
fn trust_is_replaced_by_other_files_only_once_they_can_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let write_certificate = |(certificate, _): &(X509, _)| {
        let pem = certificate.to_pem().unwrap();
        fs::write(folder.path().join("tls.crt"), pem).unwrap();
    };
    let write_key = |(_, key): &(X509, PKey<Private>)| {
        let pem = key.private_key_to_pem_pkcs8().unwrap();
        fs::write(folder.path().join("tls.key"), pem).unwrap();
    };
    let [first, second] = ["first", "second"].map(|name| self_signed(name).unwrap());
    write_certificate(&first);
    write_key(&first);
    let trust = Trust::of(&config(folder.path(), &first.0));
    let is_replaced_by = |authority: &X509| trust.is_replaced_by(&config(folder.path(), authority));
    assert!(!is_replaced_by(&first.0));
    assert!(is_replaced_by(&second.0));
    let mut without_authorities = config(folder.path(), &first.0);
    without_authorities.root_cert = Some(Vec::new());
    assert!(!trust.is_replaced_by(&without_authorities));
    // One of the two files is written first: until then the key does not match the certificate.
    write_certificate(&second);
    assert!(!is_replaced_by(&first.0));
    write_key(&second);
    assert!(is_replaced_by(&first.0));
    fs::remove_file(folder.path().join("tls.key")).unwrap();
    assert!(!is_replaced_by(&first.0));
}
