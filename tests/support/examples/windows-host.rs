//! Boots one Windows host and keeps it running until Enter, end of input, or Ctrl-C.

use std::io;

use testbed::windows_host::Fleet;

fn main() -> anyhow::Result<()> {
    let fleet = Fleet::new()?;
    let host = fleet.add_host("win-1")?;
    let (address, port, user) = (host.address(), host.port(), fleet.user());
    let key = fleet.private_key_file();
    let options = format!(
        "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -i {}",
        key.display()
    );
    println!("address   {address}");
    println!("port      {port}");
    println!("user      {user}");
    println!("key       {}", key.display());
    println!("host key  {}", host.host_key()?);
    println!("drive C   {}", host.drive_c().display());
    println!("ssh {options} -p {port} {user}@{address} ver");
    println!("sftp {options} -P {port} {user}@{address}");
    println!("Enter ends it.");
    io::stdin().read_line(&mut String::new())?;
    Ok(())
}
