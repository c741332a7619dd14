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

variable "default_address" {
  type        = string
  description = "The repository of a person who enters none. Empty: nothing happens."
  default     = ""
}

data "coder_parameter" "address" {
  name         = "dotfiles"
  display_name = "Dotfiles"
  description  = "The address of a Git repository with your dotfiles."
  icon         = "/emojis/1f4c2.svg"
  default      = var.default_address
  mutable      = true
}

resource "coder_script" "dotfiles" {
  agent_id     = var.agent_id
  display_name = "Dotfiles"
  icon         = "/emojis/1f4c2.svg"
  run_on_start = true
  script = templatefile("${path.module}/install.sh.tftpl", {
    address = base64encode(data.coder_parameter.address.value)
  })
}
