import { ownValue } from '@ropewalk/kit/own-value';
import { useQuery } from '@tanstack/react-query';
import { Lock, Send } from 'lucide-react';
import { useState } from 'react';
import { client } from '../../../api/client.ts';
import { meQuery } from '../../../api/me.ts';
import { useChange } from '../../../api/query.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button, LinkButton } from '../../../ui/button.tsx';
import type { Tone } from '../../../ui/classes.ts';
import { CodeBlock } from '../../../ui/copy.tsx';
import { Field, Input, TextArea } from '../../../ui/field.tsx';
import { Form } from '../../../ui/form.tsx';
import { Section } from '../../../ui/page.tsx';
import { Tabs } from '../../../ui/tabs.tsx';
import { paths } from '../../../util/paths.ts';
import { formatDuration } from '../../../util/time.ts';
import { type ApiDocument, curlOf, exampleOf, fillIn, type Operation, typeText } from './document.ts';
import { Shape } from './shape.tsx';

const TONES: Readonly<Record<string, Tone>> = {
  GET: 'busy',
  POST: 'good',
  PUT: 'warn',
  PATCH: 'warn',
  DELETE: 'bad',
};

export function Method({ method }: { method: string }) {
  return (
    <Badge tone={ownValue(TONES, method) ?? 'neutral'}>
      <span className="font-mono">{method}</span>
    </Badge>
  );
}

/** Everything about one operation, and a form that calls it. */
export function OperationView({ document, operation }: { document: ApiDocument; operation: Operation }) {
  const jsonBody = operation.body?.type === 'application/json' ? operation.body : undefined;
  const [values, setValues] = useState<Readonly<Record<string, string>>>({});
  const [body, setBody] = useState(() =>
    jsonBody ? JSON.stringify(exampleOf(document, jsonBody.schema), null, 2) : undefined,
  );
  const [shown, setShown] = useState(operation.answers[0]?.status ?? '');
  const path = fillIn(operation, values);
  return (
    <article className="flex flex-col gap-5">
      <header className="flex flex-col gap-2">
        <h2 className="flex flex-wrap items-center gap-2 font-mono text-lg">
          <Method method={operation.method} />
          <span className="break-all">/api/v2{operation.path}</span>
        </h2>
        <div className="flex flex-wrap items-center gap-2 text-muted">
          {operation.summary && <span>{operation.summary}.</span>}
          {operation.needsSession ? <Badge icon={Lock}>Needs a token</Badge> : <Badge>No token needed</Badge>}
        </div>
      </header>
      {operation.parameters.length > 0 && (
        <Section title="Parameters" flush>
          <ul className="px-4 py-1">
            {operation.parameters.map((parameter) => (
              <li
                key={parameter.name}
                className="flex flex-wrap items-baseline gap-x-2 border-line border-b py-1.5 last:border-b-0"
              >
                <code className="font-medium font-mono text-sm">{parameter.name}</code>
                <code className="font-mono text-muted text-xs">{typeText(document, parameter.schema)}</code>
                <span className="text-faint text-xs">
                  in the {parameter.in}
                  {!parameter.required && ', optional'}
                </span>
              </li>
            ))}
          </ul>
        </Section>
      )}
      {operation.body && (
        <Section title="Body" description={operation.body.type}>
          <Shape document={document} schema={operation.body.schema} />
        </Section>
      )}
      <Section title="Answers">
        <Tabs
          label="Answers"
          value={shown}
          onChange={setShown}
          tabs={operation.answers.map(({ status, schema, description }) => ({
            value: status,
            name: status === 'default' ? 'Errors' : status,
            content: schema ? (
              <div className="grid items-start gap-4 xl:grid-cols-2">
                <Shape document={document} schema={schema} />
                <CodeBlock code={JSON.stringify(exampleOf(document, schema), null, 2)} label="Copy the example" />
              </div>
            ) : (
              <p className="text-muted">{description === 'Success' ? 'Without a body.' : description}</p>
            ),
          }))}
        />
      </Section>
      <Section title="In a shell">
        <CodeBlock code={curlOf(operation, location.origin, path, body)} label="Copy the command" />
      </Section>
      {!operation.isStream && (!operation.body || jsonBody) && (
        <Section title="Try it">
          <TryIt operation={operation} path={path} values={values} onValues={setValues} body={body} onBody={setBody} />
        </Section>
      )}
    </article>
  );
}

/** The longest answer to show in the page. */
const MAX_SHOWN = 100_000;

function TryIt({
  operation,
  path,
  values,
  onValues,
  body,
  onBody,
}: {
  operation: Operation;
  path: string;
  values: Readonly<Record<string, string>>;
  onValues: (values: Readonly<Record<string, string>>) => void;
  body: string | undefined;
  onBody: (body: string) => void;
}) {
  const me = useQuery({ ...meQuery, retry: false });
  const send = useChange(
    async () => {
      const started = performance.now();
      const answer = await client.raw(operation.method, path, body === undefined ? undefined : JSON.parse(body));
      return { ...answer, tookMs: performance.now() - started };
    },
    { ownError: true },
  );
  const missing = /\{/.test(path);
  const malformed = body !== undefined && !isJson(body);
  if (operation.needsSession && !me.data) {
    return (
      <div className="flex flex-wrap items-center gap-3">
        <span className="text-muted">Sign in to send this request as yourself.</span>
        <LinkButton to={paths.login(location.pathname + location.hash)}>Sign in</LinkButton>
      </div>
    );
  }
  return (
    <>
      <Form
        onSubmit={() => !missing && !malformed && send.mutate()}
        error={send.error}
        actions={
          <Button
            type="submit"
            look={operation.method === 'GET' ? 'primary' : 'danger'}
            icon={Send}
            pending={send.isPending}
            disabled={missing || malformed}
          >
            {operation.method === 'GET' ? 'Send' : `Send, and change this server`}
          </Button>
        }
      >
        {operation.parameters.map(({ name, required }) => (
          <Field key={name} label={name} required={required}>
            <Input
              className="font-mono text-sm"
              value={values[name] ?? ''}
              onChange={(event) => onValues({ ...values, [name]: event.target.value })}
            />
          </Field>
        ))}
        {body !== undefined && (
          <Field label="Body" error={malformed ? 'This is not valid JSON.' : undefined}>
            <TextArea
              rows={Math.min(16, body.split('\n').length + 1)}
              spellCheck={false}
              className="font-mono text-sm"
              value={body}
              onChange={(event) => onBody(event.target.value)}
            />
          </Field>
        )}
      </Form>
      <div aria-live="polite" className="flex flex-col gap-2">
        {send.data && (
          <>
            <div className="flex items-center gap-2">
              <Badge tone={send.data.status < 400 ? 'good' : 'bad'}>{send.data.status}</Badge>
              <span className="text-muted text-sm">{formatDuration(send.data.tookMs)}</span>
            </div>
            {send.data.text && <CodeBlock code={pretty(send.data.text).slice(0, MAX_SHOWN)} label="Copy the answer" />}
          </>
        )}
      </div>
    </>
  );
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
