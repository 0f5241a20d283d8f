//! The installer as bots meet it: served by the relay or run by the program, on a home in a directory of its own.

use std::fs;

use crate::rig::Relay;

#[tokio::test]
async fn the_relay_serves_an_installer_that_joins_a_bot_and_takes_it_out_again() {
    let relay = Relay::start("", &["alice"]).await;
    let home = relay.path("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("config.yaml"), "# mine\nmodel: {default: x}\nplugins:\n  enabled: [other] # kept\n").unwrap();
    let (status, script) = relay.get("/install.py").await;
    assert_eq!(status, 200);
    fs::write(relay.path("install.py"), &script).unwrap();
    let run = async |arguments: &[&str]| {
        let mut python = tokio::process::Command::new("python3");
        let script = fs::File::open(relay.path("install.py")).unwrap();
        python.arg("-").args(arguments).arg(format!("--data-dir={}", home.display())).stdin(script);
        let done = python.output().await.unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    run(&["--token=hbt_secret"]).await;
    let config = fs::read_to_string(home.join("config.yaml")).unwrap();
    assert!(config.contains("# mine") && config.contains("# kept") && config.contains("hermes-bridge"), "{config}");
    let env = fs::read_to_string(home.join(".env")).unwrap();
    let socket = relay.url().replacen("http", "ws", 1);
    assert!(env.contains("HERMES_BRIDGE_TOKEN=hbt_secret") && env.contains(&format!("{socket}/bridge/connect")), "{env}");
    assert!(home.join("plugins/hermes-bridge/adapter.py").exists());

    let home_flag = format!("--data-dir={}", home.display());
    let ran = relay.run(&["install", "--uninstall", &home_flag]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!home.join("plugins/hermes-bridge").exists());
    assert!(!fs::read_to_string(home.join(".env")).unwrap().contains("hbt_secret"));
}

#[tokio::test]
async fn the_program_installs_what_the_relay_serves_and_keeps_the_token_out_of_arguments() {
    let relay = Relay::prepare("", &["alice"]);
    let home = relay.path("home");
    fs::create_dir(&home).unwrap();
    let home_flag = format!("--data-dir={}", home.display());
    let ran = relay.run(&["install", "--token=hbt_secret", "--relay-url=https://bridge.example.org", &home_flag]).await;
    assert_eq!(ran.code, 0, "{ran:?}");
    let env = fs::read_to_string(home.join(".env")).unwrap();
    assert!(env.contains("HERMES_BRIDGE_RELAY_URL=wss://bridge.example.org/bridge/connect"), "{env}");
    assert!(!ran.out.contains("hbt_secret"), "{}", ran.out);
}
