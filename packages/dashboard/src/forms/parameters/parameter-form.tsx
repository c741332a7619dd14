import { memo, useCallback, useRef } from 'react';
import { Badge } from '../../ui/badge.tsx';
import { Checkbox } from '../../ui/checkbox.tsx';
import { cx } from '../../ui/classes.ts';
import { Field } from '../../ui/field.tsx';
import { Markdown } from '../../ui/markdown.tsx';
import { Notice } from '../../ui/notice.tsx';
import { isDisabled, ParameterControl, TemplateIcon } from './controls.tsx';
import type { ParameterState } from './state.ts';

/** Longer forms do not lay out fields outside of the window, so that typing stays fast. */
const LONG = 40;

/**
 * The parameters of a template as a form. `parameters` is all that it shows: a change of one replaces its state and
 * renders one field. `rejected` has the server's answers by parameter name.
 */
export function ParameterForm({
  parameters,
  onChange,
  rejected,
  showProblems = false,
}: {
  parameters: readonly ParameterState[];
  onChange: (name: string, value: string) => void;
  rejected?: Readonly<Record<string, string>>;
  /** Also of fields that nobody changed: after an attempt to send the form. */
  showProblems?: boolean;
}) {
  const latest = useRef(onChange);
  latest.current = onChange;
  const change = useCallback((name: string, value: string) => latest.current(name, value), []);
  const lasting = parameters.filter(({ ephemeral }) => !ephemeral);
  const once = parameters.filter(({ ephemeral }) => ephemeral);
  const long = parameters.length > LONG;
  const fields = (list: readonly ParameterState[]) =>
    list.map((parameter) => (
      <ParameterField
        key={parameter.name}
        parameter={parameter}
        onChange={change}
        rejected={rejected?.[parameter.name]}
        showProblems={showProblems}
        long={long}
      />
    ));
  return (
    <div className="flex flex-col gap-5">
      {fields(lasting)}
      {once.length > 0 && (
        <>
          <div className="border-line border-t pt-4">
            <h3 className="font-medium text-sm">For this build only</h3>
            <p className="text-muted text-sm">These values are not kept for later builds.</p>
          </div>
          {fields(once)}
        </>
      )}
    </div>
  );
}

const ParameterField = memo(function ParameterField({
  parameter,
  onChange,
  rejected,
  showProblems,
  long,
}: {
  parameter: ParameterState;
  onChange: (name: string, value: string) => void;
  rejected: string | undefined;
  showProblems: boolean;
  long: boolean;
}) {
  const { name, label, description, formType, locked } = parameter;
  const problem = parameter.touched || showProblems ? parameter.problem : undefined;
  const error = problem ?? rejected;
  const help = (description || locked) && (
    <>
      {description && <Markdown text={description} inline />}
      {locked && <div>{locked}</div>}
    </>
  );
  const change = (value: string) => onChange(name, value);
  return (
    <div
      id={`parameter-${name}`}
      className={cx(long && '-m-1 p-1 [contain-intrinsic-size:auto_88px] [content-visibility:auto]')}
    >
      {formType === 'error' ? (
        <Notice
          tone="bad"
          title={label}
          detail={parameter.problem ?? (description || 'The template cannot show this parameter.')}
        />
      ) : formType === 'checkbox' ? (
        <div className="flex flex-col gap-1.5">
          <Checkbox
            checked={parameter.value === 'true'}
            disabled={isDisabled(parameter)}
            label={<FieldLabel parameter={parameter} />}
            help={help}
            onChange={(checked) => change(String(checked))}
          />
          <div aria-live="polite" className={cx('text-bad text-sm', !error && 'hidden')}>
            {error}
          </div>
        </div>
      ) : (
        <Field
          label={<FieldLabel parameter={parameter} />}
          help={help}
          // below them, it would read as the help of the last option
          helpAbove={formType === 'radio' || formType === 'multi-select'}
          error={error}
          required={parameter.required}
        >
          <ParameterControl parameter={parameter} onChange={change} />
        </Field>
      )}
    </div>
  );
});

function FieldLabel({ parameter }: { parameter: ParameterState }) {
  return (
    <span className="inline-flex flex-wrap items-center gap-2 font-medium text-sm">
      <TemplateIcon src={parameter.icon} />
      <span className="break-words">{parameter.label}</span>
      {parameter.fromLast && <Badge tone="accent">From your last workspace</Badge>}
      {parameter.immutable && !parameter.locked && <Badge>Fixed after creation</Badge>}
    </span>
  );
}
