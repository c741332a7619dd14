terraform {
  required_providers {
    coder = {
      source = "coder/coder"
    }
  }
}

variable "agent_id" {
  type        = string
  description = "The id of the agent."
}

variable "path" {
  type        = string
  description = "The path of the script, below the home directory."
  default     = "personalize"
}

resource "coder_script" "personalize" {
  agent_id     = var.agent_id
  display_name = "Personalize"
  icon         = "/emojis/2728.svg"
  run_on_start = true
  script       = <<-EOT
    #!/bin/sh
    script="$HOME/$(echo '${base64encode(var.path)}' | base64 -d)"
    [ -x "$script" ] || exit 0
    exec "$script"
  EOT
}
