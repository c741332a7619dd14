import { X } from 'lucide-react';
import { Dialog as Radix } from 'radix-ui';
import { type ReactNode, useState } from 'react';
import { errorText } from '../api/errors.ts';
import { Button, IconButton } from './button.tsx';
import { cx } from './classes.ts';
import { Field, Input } from './field.tsx';
import { Notice } from './notice.tsx';

/** A window above the page. `wide` is for code and logs. */
export function Dialog({
  open,
  onClose,
  title,
  description,
  wide = false,
  footer,
  children,
}: {
  open: boolean;
  onClose: () => void;
  title: ReactNode;
  description?: ReactNode;
  wide?: boolean;
  footer?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <Radix.Root open={open} onOpenChange={(next) => !next && onClose()}>
      <Radix.Portal>
        <Radix.Overlay className="fixed inset-0 z-40 bg-black/40 dark:bg-black/60" />
        <Radix.Content
          {...(description ? {} : { 'aria-describedby': undefined })}
          className={cx(
            'fixed top-1/2 left-1/2 z-50 flex max-h-[calc(100dvh-2rem)] w-[calc(100vw-2rem)] -translate-x-1/2 -translate-y-1/2 flex-col rounded-xl bg-raised shadow-float',
            wide ? 'max-w-3xl' : 'max-w-lg',
          )}
        >
          <div className="px-5 pt-4 pr-14 pb-2">
            <Radix.Title className="font-semibold text-lg">{title}</Radix.Title>
            {description && (
              <Radix.Description asChild>
                <div className="mt-1 text-muted">{description}</div>
              </Radix.Description>
            )}
          </div>
          <div className="min-h-0 flex-1 overflow-y-auto px-5 py-2">{children}</div>
          {footer && <div className="flex justify-end gap-2 px-5 pt-2 pb-4">{footer}</div>}
          {/* last, so that the focus starts in the dialog's content */}
          <div className="absolute top-3.5 right-4">
            <IconButton icon={X} label="Close" size="sm" onClick={onClose} />
          </div>
        </Radix.Content>
      </Radix.Portal>
    </Radix.Root>
  );
}

/**
 * Asks before something happens. `onConfirm` may take a while: the dialog waits for it and shows its error. `typeToConfirm`
 * is for actions that cannot be undone: a person types this name first.
 */
export function ConfirmDialog({
  open,
  onClose,
  title,
  children,
  action,
  danger = false,
  typeToConfirm,
  onConfirm,
}: {
  open: boolean;
  onClose: () => void;
  title: string;
  children?: ReactNode;
  action: string;
  danger?: boolean;
  typeToConfirm?: string;
  onConfirm: () => Promise<unknown> | undefined;
}) {
  const [typed, setTyped] = useState('');
  const [pending, setPending] = useState(false);
  const [error, setError] = useState<unknown>();
  const close = () => {
    if (pending) return;
    setTyped('');
    setError(undefined);
    onClose();
  };
  const ready = typeToConfirm === undefined || typed === typeToConfirm;
  const confirm = async () => {
    if (!ready || pending) return;
    setPending(true);
    setError(undefined);
    try {
      await onConfirm();
      setTyped('');
      onClose();
    } catch (err) {
      setError(err);
    } finally {
      setPending(false);
    }
  };
  return (
    <Dialog
      open={open}
      onClose={close}
      title={title}
      footer={
        <>
          <Button onClick={close} disabled={pending}>
            Cancel
          </Button>
          <Button
            look={danger ? 'danger' : 'primary'}
            pending={pending}
            disabled={!ready}
            onClick={() => void confirm()}
          >
            {action}
          </Button>
        </>
      }
    >
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void confirm();
        }}
      >
        {children}
        {typeToConfirm !== undefined && (
          <Field
            label={
              <>
                Type <b className="wrap-anywhere">{typeToConfirm}</b> to confirm
              </>
            }
          >
            <Input value={typed} onChange={(event) => setTyped(event.target.value)} />
          </Field>
        )}
        {error !== undefined && <Notice tone="bad" {...errorText(error)} />}
      </form>
    </Dialog>
  );
}
