/** The name that templates give to the parameter with the prompt of an AI task. */
export const PROMPT_PARAMETER = 'AI Prompt';
