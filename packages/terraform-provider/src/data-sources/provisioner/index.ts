import { arch, platform } from 'node:os';
import { ownValue } from '@ropewalk/kit/own-value';
import { stableId } from '../../environment.ts';
import { computed, idAttribute } from '../../schema.ts';
import type { DataSource } from '../../types.ts';

const ARCH: Record<string, string> = { x64: 'amd64', arm: 'armv7' };
const OS: Record<string, string> = { win32: 'windows' };

export const dataSource: DataSource = {
  schema: {
    version: 1,
    description: 'The machine that Terraform runs on.',
    attributes: {
      id: idAttribute,
      os: computed('string', 'Operating system.'),
      arch: computed('string', 'Processor architecture.'),
    },
  },
  read() {
    const machine = { os: ownValue(OS, platform()) ?? platform(), arch: ownValue(ARCH, arch()) ?? arch() };
    return { id: stableId('provisioner', machine.os, machine.arch), ...machine };
  },
};
