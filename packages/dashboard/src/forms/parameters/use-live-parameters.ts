import type { DynamicParametersResponse } from '@ropewalk/contract';
import { useEffect, useRef, useState } from 'react';
import { generalProblems, inputsOf, type LiveForm, startLive, typed, withAnswer, withPreset } from './live.ts';
import { type Sources, valuesOf } from './state.ts';
import type { Parameters } from './use-parameters.ts';

const FIRST_RETRY_MS = 500;
const LONGEST_RETRY_MS = 8_000;
/** Attempts without any connection, after which the classic form takes over. */
const MAX_FAILURES = 3;
/** The close code of a server that does not allow the form, or does not understand it. */
const REJECTED = 1008;

export interface LiveParameters extends Parameters {
  /** False until the server has answered once. */
  ready: boolean;
  /** Whether the server has answered to the newest values. Not asked for while it cannot be reached. */
  settled: () => boolean;
  /** Whether the server cannot be reached now, so that the form may be out of date. */
  away: boolean;
  /** Problems that belong to no single parameter. */
  problems: { severity: 'error' | 'warning'; summary: string; detail: string }[];
}

interface Of {
  versionId: string;
  /** Absent while it is not known: the caller. */
  ownerId?: string | undefined;
  sources: Sources;
}

/**
 * The parameters of a form that the server evaluates while a person types. Undefined if `of` is, or if the server cannot
 * evaluate them: then the form is the classic one.
 */
export function useLiveParameters(of: Of | undefined): LiveParameters | undefined {
  const [form, setForm] = useState<LiveForm>(() => startLive(of?.sources ?? {}));
  const [problems, setProblems] = useState<LiveParameters['problems']>();
  const [connection, setConnection] = useState<'open' | 'away' | 'impossible'>('open');
  const socket = useRef<WebSocket>(undefined);
  const sent = useRef(0);
  const answered = useRef(0);
  const latest = useRef({ form, ownerId: of?.ownerId });
  latest.current = { form, ownerId: of?.ownerId };

  const send = () => {
    const current = socket.current;
    if (current?.readyState !== WebSocket.OPEN) return;
    const { form: now, ownerId } = latest.current;
    const request = { id: ++sent.current, inputs: inputsOf(now), ...(ownerId ? { owner_id: ownerId } : {}) };
    current.send(JSON.stringify(request));
  };

  const versionId = of?.versionId;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the connection belongs to the version alone
  useEffect(() => {
    if (versionId === undefined) return;
    let ended = false;
    let failures = 0;
    let retryMs = FIRST_RETRY_MS;
    let retry: ReturnType<typeof setTimeout> | undefined;
    const open = () => {
      const address = new URL(`/api/v2/templateversions/${versionId}/dynamic-parameters`, location.href);
      address.protocol = address.protocol.replace('http', 'ws');
      const current = new WebSocket(address);
      socket.current = current;
      answered.current = sent.current;
      current.onopen = () => {
        failures = 0;
        retryMs = FIRST_RETRY_MS;
        setConnection('open');
        send();
      };
      current.onmessage = ({ data }) => {
        const response = JSON.parse(String(data)) as DynamicParametersResponse;
        // the first answer knows no values yet, and the next one follows immediately
        if (response.id <= answered.current) return;
        answered.current = response.id;
        setProblems(generalProblems(response));
        setForm((old) => withAnswer(old, response.parameters));
      };
      current.onclose = ({ code }) => {
        if (ended) return;
        if (code === REJECTED || ++failures >= MAX_FAILURES) return setConnection('impossible');
        setConnection('away');
        retry = setTimeout(open, retryMs);
        retryMs = Math.min(retryMs * 2, LONGEST_RETRY_MS);
      };
    };
    open();
    return () => {
      ended = true;
      clearTimeout(retry);
      socket.current?.close();
    };
  }, [versionId]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: sends what has changed
  useEffect(send, [form.chosen, of?.ownerId]);

  if (!of || connection === 'impossible') return undefined;
  const { states } = form;
  return {
    states,
    change: (name, value) => setForm((old) => typed(old, name, value)),
    preset: form.sources.preset,
    setPreset: (preset) => setForm((old) => withPreset(old, preset)),
    values: valuesOf(states),
    valid:
      problems !== undefined &&
      states.every(({ problem, formType }) => problem === undefined && formType !== 'error') &&
      problems.every(({ severity }) => severity !== 'error'),
    ready: problems !== undefined,
    settled: () =>
      problems !== undefined && (socket.current?.readyState !== WebSocket.OPEN || answered.current >= sent.current),
    away: connection === 'away',
    problems: problems ?? [],
  };
}
