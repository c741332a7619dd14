import { createDrpcClient } from '@ropewalk/wire/drpc';
import { JobControl } from '@ropewalk/wire/proto/platform_provisioner';
import { ProvisionerDaemon } from '@ropewalk/wire/proto/provisionerd';
import type { YamuxSession } from '@ropewalk/wire/yamux';

/** The largest message. An upstream server has its own limit of 4 MiB. */
const MAX_MESSAGE_BYTES = 128 * 1024 * 1024;

/** The calls that a daemon makes. */
export type Clients = ReturnType<typeof clientsOf>;

export function clientsOf(session: YamuxSession) {
  const open = () => session.openStream();
  const limits = { maxMessageBytes: MAX_MESSAGE_BYTES };
  return {
    daemon: createDrpcClient(ProvisionerDaemon, open, limits),
    control: createDrpcClient(JobControl, open, limits),
  };
}
