// The modules of ssh2 that an SSH server needs. The package's main module also loads the client, the generator of keys and
// agents for HTTPS. The package ships no types for its modules.
declare module 'ssh2/lib/server.js' {
  import { Server } from 'ssh2';

  export default Server;
}
declare module 'ssh2/lib/protocol/SFTP.js' {
  import { utils } from 'ssh2';

  const sftp: typeof utils.sftp;
  export default sftp;
}
