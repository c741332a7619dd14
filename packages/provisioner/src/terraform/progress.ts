import { create } from '@bufbuild/protobuf';
import { timestampFromMs } from '@bufbuild/protobuf/wkt';
import { ownValue } from '@ropewalk/kit/own-value';
import { type Timing, TimingSchema, TimingState } from '@ropewalk/wire/proto/provisioner';
import type { TerraformLine } from './logs.ts';

export type TimingStage = 'init' | 'plan' | 'graph' | 'apply';

/** The types of JSON lines that begin or end a span, with its category and state. */
const SPANS: Record<string, ['apply' | 'provision' | 'refresh', TimingState]> = {
  apply_start: ['apply', TimingState.STARTED],
  apply_complete: ['apply', TimingState.COMPLETED],
  apply_errored: ['apply', TimingState.FAILED],
  provision_start: ['provision', TimingState.STARTED],
  provision_complete: ['provision', TimingState.COMPLETED],
  provision_errored: ['provision', TimingState.FAILED],
  refresh_start: ['refresh', TimingState.STARTED],
  refresh_complete: ['refresh', TimingState.COMPLETED],
};

const MAX_SPANS = 20_000;

/** Follows a run's JSON stream: how long each step took, and which resources Terraform is creating. */
export class Progress {
  readonly #open = new Map<string, { start: number; action: string; resource: string; source: string }>();
  readonly #timings: Timing[] = [];
  readonly #creating = new Set<string>();

  /** Processes one line. Its time is its own timestamp, else `at` (Unix milliseconds). */
  take(line: TerraformLine, stage: TimingStage, at: number): void {
    const span = ownValue(SPANS, line.type ?? '');
    const addr = line.hook?.resource?.addr;
    if (!span || !line.hook || !addr) return;
    const [category, state] = span;
    const action = line.hook.action || (category === 'refresh' ? 'state refresh' : category);
    if (category === 'apply' && (action === 'create' || action === 'replace')) {
      if (state === TimingState.STARTED) this.#creating.add(addr);
      else this.#creating.delete(addr);
    }
    const stamp = Date.parse(line['@timestamp'] ?? '');
    const when = Number.isNaN(stamp) ? at : stamp;
    const source = line.hook.resource?.implied_provider ?? '';
    const key = `${category}\0${action}\0${addr}\0${line.hook.provisioner ?? ''}`;
    if (state === TimingState.STARTED) {
      if (this.#open.size < MAX_SPANS) this.#open.set(key, { start: when, action, resource: addr, source });
      return;
    }
    const begun = this.#open.get(key);
    this.#open.delete(key);
    if (begun && this.#timings.length < MAX_SPANS) this.add(stage, begun, when, state);
  }

  /** Adds a span that isn't in the stream, such as the initialization. */
  add(
    stage: TimingStage,
    span: { start: number; action: string; resource: string; source: string },
    end: number,
    state: TimingState = TimingState.COMPLETED,
  ): void {
    this.#timings.push(
      create(TimingSchema, {
        start: timestampFromMs(span.start),
        end: timestampFromMs(end),
        action: span.action,
        source: span.source,
        resource: span.resource,
        stage,
        state,
      }),
    );
  }

  /** The spans that have ended. */
  get timings(): Timing[] {
    return [...this.#timings];
  }

  /** The addresses of resources whose creation has begun and not ended. */
  get creating(): string[] {
    return [...this.#creating].sort();
  }
}
