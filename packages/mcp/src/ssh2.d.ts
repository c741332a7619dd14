/** The module of ssh2 that an SSH client needs. The package's main module also loads the server and agents for HTTPS. */
declare module 'ssh2/lib/client.js' {
  import { Client } from 'ssh2';

  export default Client;
}
