import { type KeyboardEvent, type ReactNode, useId } from 'react';
import { Input } from './field.tsx';
import { OptionList, useOptionList } from './option-list.tsx';

export interface ComboboxOption {
  value: string;
  label: ReactNode;
}

/** A choice among many, found by typing. `options` are those that match `typed`, from a server or a list. */
export function Combobox({
  value,
  onChange,
  typed,
  onType,
  options,
  placeholder,
  disabled = false,
}: {
  value: string;
  onChange: (value: string) => void;
  typed: string;
  onType: (typed: string) => void;
  options: readonly ComboboxOption[];
  placeholder?: string;
  disabled?: boolean;
}) {
  const id = useId();
  const { open, setOpen, active, setActive, shown, fieldProps, onKey } = useOptionList(id, options.length, 0);
  const choose = (option: ComboboxOption) => {
    onChange(option.value);
    onType('');
    setOpen(false);
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (onKey(event) || event.key !== 'Enter' || !open) return;
    event.preventDefault();
    const option = options[active];
    if (option) choose(option);
  };
  return (
    <div className="relative">
      <Input
        {...fieldProps}
        disabled={disabled}
        placeholder={placeholder}
        value={open ? typed : value}
        onFocus={() => setOpen(true)}
        onClick={() => setOpen(true)}
        onBlur={() => {
          setOpen(false);
          onType('');
        }}
        onChange={(event) => {
          setOpen(true);
          setActive(0);
          onType(event.target.value);
        }}
        onKeyDown={onKeyDown}
      />
      <OptionList
        id={id}
        label="Options"
        shown={shown}
        active={active}
        options={options}
        keyOf={(option) => option.value}
        isSelected={(option) => option.value === value}
        onChoose={choose}
        render={(option) => option.label}
      />
    </div>
  );
}
