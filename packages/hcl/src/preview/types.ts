/** A problem in a template or a value, for the person who fills in a form. */
export interface Notice {
  severity: 'error' | 'warning';
  summary: string;
  detail: string;
  /** For programs: `required`, `module_not_loaded` or empty. */
  code: string;
}

/** A text that may be null or not known yet. */
export interface NullableText {
  value: string;
  valid: boolean;
}

export interface PreviewedOption {
  name: string;
  description: string;
  value: NullableText;
  icon: string;
}

export interface PreviewedValidation {
  error: string;
  regex: string | null;
  min: number | null;
  max: number | null;
  monotonic: string | null;
}

export interface Styling {
  placeholder?: string;
  disabled?: boolean;
  label?: string;
  mask_input?: boolean;
}

export interface PreviewedParameter {
  name: string;
  display_name: string;
  description: string;
  type: string;
  form_type: string;
  styling: Styling;
  mutable: boolean;
  ephemeral: boolean;
  required: boolean;
  default_value: NullableText;
  value: NullableText;
  icon: string;
  order: number;
  options: PreviewedOption[];
  validations: PreviewedValidation[];
  diagnostics: Notice[];
}

export interface PreviewedPreset {
  name: string;
  default: boolean;
  parameters: Record<string, string>;
  diagnostics: Notice[];
}

export interface Preview {
  /** By order, then by name. */
  parameters: PreviewedParameter[];
  presets: PreviewedPreset[];
  /** The tags of `coder_workspace_tags` that are known. */
  tags: Record<string, string>;
  /** The names of tags that are unknown or not text. */
  unknownTags: string[];
  diagnostics: Notice[];
}

/** The workspace owner, as `coder_workspace_owner` shows them. Secrets are left out: only a build has them. */
export interface PreviewOwner {
  id: string;
  name: string;
  full_name: string;
  email: string;
  login_type: string;
  ssh_public_key: string;
  groups: string[];
  rbac_roles: { name: string; org_id: string }[];
}

export const error = (summary: string, detail: string, code = ''): Notice => ({
  severity: 'error',
  summary,
  detail,
  code,
});

export const warning = (summary: string, detail: string, code = ''): Notice => ({
  severity: 'warning',
  summary,
  detail,
  code,
});
