import { CircleAlert, CircleCheck, Eye, EyeOff } from 'lucide-react';
import { type ComponentPropsWithRef, type ReactNode, useEffect, useState } from 'react';
import { call } from '../../api/client.ts';
import { IconButton } from '../../ui/button.tsx';
import { Field, Input } from '../../ui/field.tsx';

type InputProps = Omit<ComponentPropsWithRef<'input'>, 'type' | 'value' | 'onChange'>;

/** A password that can be made visible. Without `value`, its form reads it by its name. */
export function PasswordField({
  label,
  value,
  onChange,
  error,
  help,
  ...rest
}: InputProps & {
  label: string;
  value?: string;
  onChange?: (value: string) => void;
  error?: string | undefined;
  help?: ReactNode;
}) {
  const [visible, setVisible] = useState(false);
  return (
    <Field label={label} error={error} help={help}>
      <div className="relative">
        <Input
          type={visible ? 'text' : 'password'}
          value={value}
          onChange={(event) => onChange?.(event.target.value)}
          {...rest}
          className="pr-9"
        />
        <div className="absolute top-0.5 right-0.5">
          <IconButton
            icon={visible ? EyeOff : Eye}
            size="sm"
            label={visible ? 'Hide the password' : 'Show the password'}
            onClick={() => setVisible(!visible)}
          />
        </div>
      </div>
    </Field>
  );
}

const ASK_AFTER_MS = 250;

/** A password to set. The server judges it while the person types. */
export function NewPasswordField({
  value,
  error,
  ...rest
}: InputProps & {
  label: string;
  value: string;
  onChange: (value: string) => void;
  error?: string | undefined;
}) {
  const [verdict, setVerdict] = useState<{ valid: boolean; details: string }>();
  useEffect(() => {
    setVerdict(undefined);
    if (value === '') return;
    let current = true;
    const timer = setTimeout(() => {
      // if this check fails, the form's own answer reports the problem
      void call('POST /users/validate-password', { body: { password: value } }).then(
        (answer) => current && setVerdict(answer),
        () => {},
      );
    }, ASK_AFTER_MS);
    return () => {
      current = false;
      clearTimeout(timer);
    };
  }, [value]);
  const help = !verdict ? (
    'At least 8 characters. A few words are easier to remember than random characters.'
  ) : verdict.valid ? (
    <span className="flex items-center gap-1.5 text-good">
      <CircleCheck size={14} aria-hidden="true" />
      This password is good.
    </span>
  ) : (
    <span className="flex items-center gap-1.5 text-warn">
      <CircleAlert size={14} aria-hidden="true" className="shrink-0" />
      It {verdict.details}.
    </span>
  );
  return (
    <PasswordField
      autoComplete="new-password"
      value={value}
      error={error}
      help={<span aria-live="polite">{help}</span>}
      {...rest}
    />
  );
}
