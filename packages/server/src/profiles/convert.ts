import type { HeapProfiler, Profiler, Runtime } from 'node:inspector';
import { Function as Fn, Line, Location, Profile, Sample, StringTable, ValueType } from 'pprof-format';

/** The parts of V8's profiles that have the same form: nodes of a tree of calls. */
interface CallNode {
  frame: Runtime.CallFrame;
  children: readonly CallNode[];
  /** What is counted in this frame itself. Nodes without samples have none. */
  values: readonly number[] | undefined;
}

/** A frame that V8 reports while no code runs. */
const IDLE = '(idle)';

/** Converts a CPU profile: the number of samples and the time of each stack, without idle time. */
export function cpuProfile(profile: Profiler.Profile): Uint8Array {
  const byId = new Map(profile.nodes.map((node) => [node.id, node]));
  const spent = new Map<number, [count: number, nanoseconds: number]>();
  const { samples = [], timeDeltas = [] } = profile;
  for (const [index, id] of samples.entries()) {
    const sum = spent.get(id) ?? [0, 0];
    // a sample counts for the time until the next one
    const ns = 1_000 * Math.max(0, timeDeltas[index + 1] ?? 0);
    spent.set(id, [sum[0] + 1, sum[1] + ns]);
  }
  const build = (id: number): CallNode => {
    const { callFrame: frame, children = [] } = byId.get(id)!;
    return { frame, children: children.map(build), values: frame.functionName === IDLE ? undefined : spent.get(id) };
  };
  return encode(build(profile.nodes[0]!.id), {
    types: [
      ['samples', 'count'],
      ['cpu', 'nanoseconds'],
    ],
    nanoseconds: (profile.endTime - profile.startTime) * 1_000,
  });
}

/** What V8 reports beyond Node's types. */
interface HeapNode extends HeapProfiler.SamplingHeapProfileNode {
  id: number;
  children: HeapNode[];
}
interface HeapSamples {
  head: HeapNode;
  samples: { nodeId: number }[];
}

/** Converts a heap profile: the objects that each stack has allocated and that are in use, as the sampler estimates. */
export function heapProfile(profile: HeapProfiler.SamplingHeapProfile): Uint8Array {
  const { head, samples } = profile as HeapSamples;
  const counts = new Map<number, number>();
  for (const { nodeId } of samples) counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
  const build = (node: HeapNode): CallNode => ({
    frame: node.callFrame,
    children: node.children.map(build),
    values: node.selfSize > 0 ? [counts.get(node.id) ?? 0, node.selfSize] : undefined,
  });
  return encode(build(head), {
    types: [
      ['inuse_objects', 'count'],
      ['inuse_space', 'bytes'],
    ],
  });
}

function encode(root: CallNode, about: { types: [string, string][]; nanoseconds?: number }): Uint8Array {
  const stringTable = new StringTable();
  const text = (value: string) => stringTable.dedup(value);
  const functions = new Map<string, Fn>();
  const locations = new Map<string, Location>();
  const locationOf = ({ functionName, url, lineNumber, scriptId }: Runtime.CallFrame): number => {
    const key = `${scriptId}:${lineNumber}:${functionName}`;
    let location = locations.get(key);
    if (!location) {
      const fn = new Fn({
        id: functions.size + 1,
        name: text(functionName || '(anonymous)'),
        systemName: text(functionName),
        filename: text(url),
        startLine: lineNumber + 1,
      });
      functions.set(key, fn);
      const line = new Line({ functionId: fn.id, line: lineNumber + 1 });
      location = new Location({ id: locations.size + 1, line: [line] });
      locations.set(key, location);
    }
    return location.id as number;
  };
  const sample: Sample[] = [];
  const visit = (node: CallNode, callers: readonly number[]) => {
    const stack = [locationOf(node.frame), ...callers];
    if (node.values) sample.push(new Sample({ locationId: stack, value: [...node.values] }));
    for (const child of node.children) visit(child, stack);
  };
  // the root stands for the program, not for a call
  for (const child of root.children) visit(child, []);
  const types = about.types.map(([type, unit]) => new ValueType({ type: text(type), unit: text(unit) }));
  return new Profile({
    sampleType: types,
    sample,
    location: [...locations.values()],
    function: [...functions.values()],
    stringTable,
    timeNanos: BigInt(Date.now()) * 1_000_000n,
    ...(about.nanoseconds === undefined ? {} : { durationNanos: about.nanoseconds }),
    periodType: types.at(-1)!,
  }).encode();
}
